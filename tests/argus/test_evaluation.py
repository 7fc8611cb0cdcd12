"""An evaluation asks every engine the same, scores it, and says where engines differ."""

import json
import shutil
from dataclasses import replace

import jsonschema
import pytest

from tests.argus.program import vlmopt
from vlmopt.argus.errors import InputError
from vlmopt.argus.evaluation import run
from vlmopt.argus.evaluation.in_transformers import Transformers
from vlmopt.argus.evaluation.questions import questions_of
from vlmopt.argus.scenes import Scenes

TOKENS = 12
RATE = {"type": "object", "required": ["value", "count"]}
ENGINE = {
    "type": "object",
    "required": ["name", "seconds", "vqa", "vqa_kinds", "captions", "grounding", "dense_captions"],
    "properties": {
        "vqa": RATE,
        "captions": RATE,
        "grounding": {"required": ["accuracy", "mean_iou", "parse_failures", "kinds"]},
        "dense_captions": {"required": ["mean_average_precision", "by_threshold", "count", "parse_failures"]},
    },
}


@pytest.fixture(scope="module")
def questions():
    return questions_of(Scenes("heldout", count=2), None)


@pytest.fixture(scope="module")
def alone(tiny, questions):
    """The answers to questions that are asked one at a time."""
    return Transformers(*tiny, TOKENS, batch=1).answer(questions)


def test_batching_changes_no_token(tiny, questions, alone):
    together = Transformers(*tiny, TOKENS, batch=64).answer(questions)
    assert [answer.tokens for answer in together] == [answer.tokens for answer in alone]
    assert len({answer.tokens for answer in alone}) > len(alone) // 2
    for one, other in zip(alone, together, strict=True):
        assert other.logprobs == pytest.approx(one.logprobs, abs=1e-4)
        assert max(one.logprobs) <= 0


def test_an_answer_ends_where_the_model_ends_it(tiny, questions, alone):
    model, processor = tiny
    end = alone[0].tokens[2]
    before = model.generation_config.eos_token_id
    model.generation_config.eos_token_id = [before, end]
    try:
        ended = Transformers(model, processor, TOKENS, batch=64).answer(questions)
    finally:
        model.generation_config.eos_token_id = before
    assert ended[0].tokens == alone[0].tokens[: alone[0].tokens.index(end) + 1]
    for whole, cut in zip(alone, ended, strict=True):
        assert whole.tokens[: len(cut.tokens)] == cut.tokens
        assert len(cut.logprobs) == len(cut.tokens)
        assert end not in cut.tokens[:-1]


def test_a_question_that_leaves_no_room_is_refused(tiny, questions):
    long = replace(questions[0], example=replace(questions[0].example, question="star " * 1000))
    with pytest.raises(InputError, match=r"a question of \d+ tokens about heldout/0/0: this model takes 987"):
        Transformers(*tiny, TOKENS).answer([long])


def test_the_program_scores_scenes(checkpoint, monkeypatch, capsys, alone):
    words = ["argus", "eval", checkpoint, "--engine", "transformers", "--count", 2, "--tokens", TOKENS]
    code, out, err = vlmopt(monkeypatch, capsys, *words, "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert (told["pictures"], told["questions"], told["agree"]) == (2, len(alone), True)
    (engine,) = told["engines"]
    jsonschema.validate(engine, ENGINE)
    assert engine["captions"]["count"] == engine["dense_captions"]["count"] == 2
    code, out, _ = vlmopt(monkeypatch, capsys, *words)
    assert code == 0
    for said in (f"{len(alone)} questions about 2 pictures", "VQA accuracy", "mean average precision"):
        assert said in out


class Wrong:
    """An engine that answers as transformers does, but for one token of one answer."""

    answers = ()
    place = 4

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    def answer(self, questions, tick):
        made = list(self.answers)
        wrong = made[self.place]
        made[self.place] = replace(wrong, text="other", tokens=(*wrong.tokens[:3], 0, *wrong.tokens[4:]))
        return made


def test_engines_that_differ_are_exit_code_one(checkpoint, monkeypatch, capsys, questions, alone):
    monkeypatch.setattr(run, "VLLM", Wrong)
    monkeypatch.setattr(run, "_need_vllm", lambda names: None)
    Wrong.answers = alone
    words = ["argus", "eval", checkpoint, "--engine", "transformers", "--engine", "stock", "--count", 2]
    code, out, _ = vlmopt(monkeypatch, capsys, *words, "--tokens", TOKENS)
    assert code == 1
    asked = questions[Wrong.place]
    assert f"stock answered otherwise than transformers to 1 of {len(alone)} questions" in out
    assert f"stock, {asked.picture}: {asked.example.question}\n  token 4 differs: " in out
    code, out, _ = vlmopt(monkeypatch, capsys, *words, "--tokens", TOKENS, "--json")
    told = json.loads(out)
    assert (code, told["agree"], told["differences"]) == (1, False, 1)
    (first,) = told["first_differences"]
    assert (first["engine"], first["step"], first["given"]["text"]) == ("stock", 3, "other")
    assert first["expected"]["tokens"] == list(alone[Wrong.place].tokens)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "nobody"], "no engine 'nobody': choose transformers, stock, fork, or a fork's folder"),
        (["--engine", "stock", "--engine", "stock"], "name each engine once"),
        (["--engine", "."], " is no fork"),
        (["--engine", "fork"], "does not say which model this is: make a fork with `vlmopt apply`"),
        (["--engine", "transformers", "--count", "0"], "count 0: it must be above 0"),
        (["--engine", "transformers", "--tokens", "-1"], "tokens -1: it must be above 0"),
        (["--engine", "transformers", "--data", "nowhere.json"], "the pictures of these files"),
    ],
)
def test_wrong_usage_is_one_line(checkpoint, monkeypatch, capsys, words, message):
    code, out, err = vlmopt(monkeypatch, capsys, "argus", "eval", checkpoint, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.engine
@pytest.mark.long
def test_stock_vllm_and_a_fork_give_the_same_tokens(checkpoint, tmp_path):
    trained = tmp_path / "trained"
    shutil.copytree(checkpoint, trained)
    (trained / "training.json").write_text(json.dumps({"options": {"member": "argusvlm-tiny"}}))
    result = run.evaluate(run.Options(trained, count=6, tokens=40))
    assert result.agree, [difference.to_json() for difference in result.differences[:3]]
    assert result.scores["transformers"].vqa == result.scores["stock"].vqa == result.scores["fork"].vqa
    assert list(result.seconds) == ["transformers", "stock", "fork"]
