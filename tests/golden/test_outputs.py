"""Golden outputs as data: their files, how they are compared, and that nothing is overwritten unasked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.models import golden_names
from vlmopt import yamlfile
from vlmopt.console import show
from vlmopt.errors import EquivalenceError, UsageError
from vlmopt.folders import golden_folder
from vlmopt.golden.cases import Case
from vlmopt.golden.check import Checked, Party, Row, compare
from vlmopt.golden.files import Golden, golden_path, read_golden, write_golden
from vlmopt.golden.outputs import TOLERANCE, Output, Stage, Summary, distance
from vlmopt.golden.record import make_golden
from vlmopt.report.golden import checked_object, checked_tables
from vlmopt.small import small_of
from vlmopt.specs import GoldenFacts, load_spec

Outputs = dict[Party, dict[str, Output]]
MEGABYTE = 1 << 20


@pytest.fixture(params=golden_names())
def golden(request: pytest.FixtureRequest) -> Golden:
    return read_golden(golden_folder(), request.param)


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    """A folder with the golden outputs of one model alone."""
    shutil.copy(golden_path(golden_folder(), golden.model), tmp_path)
    return tmp_path


def recorded(golden: Golden) -> Outputs:
    """What all parties give when everything is as it was recorded."""
    stock = {name: case.stock or case.third_party for name, case in golden.cases.items()}
    return {
        Party.third_party: {name: case.third_party for name, case in golden.cases.items()},
        Party.stock: stock,
        Party.fork: dict(stock),
    }


def facts_of(golden: Golden) -> GoldenFacts:
    """What the spec says of these golden outputs."""
    return small_of(load_spec(golden.model)).golden


def stages_of(golden: Golden) -> list[Stage]:
    """What is compared: answers only where they are whole."""
    return [stage for stage in Stage if stage is not Stage.answer or facts_of(golden).whole]


def breaches(rows: list[Row]) -> set[tuple[Stage, Party]]:
    return {(row.stage, row.party) for row in rows if row.breaches}


def shifted(summary: Summary, by: float) -> Summary:
    first, *rest = summary.samples
    return summary.model_copy(update={"samples": (first + by, *rest), "sha256": "0" * 64})


def change_ids(output: Output, by: float) -> Output:
    (first, count), *rest = output.token_ids
    return output.model_copy(update={"token_ids": ((first + 1, count), *rest)})


def change_inputs(output: Output, by: float) -> Output:
    return output.model_copy(
        update={"inputs": output.inputs | {"pixels": shifted(output.inputs["pixels"], by)}}
    )


def change_embeddings(output: Output, by: float) -> Output:
    assert output.embeddings is not None
    return output.model_copy(update={"embeddings": shifted(output.embeddings, by)})


def change_logits(output: Output, by: float) -> Output:
    ((token, value), *others), *steps = output.logits
    return output.model_copy(update={"logits": (((token, value + by), *others), *steps)})


def change_tokens(output: Output, by: float) -> Output:
    return output.model_copy(update={"tokens": (*output.tokens[:-1], output.tokens[-1] + 1)})


def change_answer(output: Output, by: float) -> Output:
    return output.model_copy(update={"text": f"{output.text}?"})


CHANGES: dict[Stage, Callable[[Output, float], Output]] = {
    Stage.token_ids: change_ids,
    Stage.inputs: change_inputs,
    Stage.embeddings: change_embeddings,
    Stage.logits: change_logits,
    Stage.tokens: change_tokens,
    Stage.answer: change_answer,
}


def test_there_is_a_file_for_every_model_and_all_are_small() -> None:
    files = [path for path in golden_folder().rglob("*") if path.is_file()]
    assert {path.stem for path in files if path.suffix == ".json"} == set(golden_names())
    assert sum(path.stat().st_size for path in files) < 20 * MEGABYTE
    assert sum(path.stat().st_size for path in files if path.suffix == ".json") < MEGABYTE


def test_a_file_says_what_it_was_made_of(golden: Golden) -> None:
    assert set(golden.versions) == {"transformers", "torch", "torchvision", "pillow", "numpy"}
    assert golden.vllm
    assert all(len(digest) == 64 for digest in golden.weights.values())
    asked = yamlfile.load(golden_folder() / facts_of(golden).cases, UsageError)
    assert list(golden.cases) == list(asked.data)


def test_every_case_holds_every_stage(golden: Golden) -> None:
    for name, case in golden.cases.items():
        output = case.third_party
        facts = facts_of(golden)
        assert len(output.tokens) == len(output.logits) <= facts.tokens, name
        assert len(output.tokens) == facts.tokens or facts.whole, name
        assert (output.text is not None) == facts.whole, name
        assert [step[0][0] for step in output.logits] == list(output.tokens), name
        assert bool(case.pictures) == bool(output.inputs) == (output.embeddings is not None), name
        assert (case.why is not None) == bool(case.apart) == (case.stock is not None), name
    given = [(case.prompt, case.pictures) for case in golden.cases.values()]
    answers = {
        (output.logits, output.tokens) for output in (case.third_party for case in golden.cases.values())
    }
    assert len(answers) == len(given)


def test_what_was_recorded_holds(golden: Golden) -> None:
    assert breaches(compare(golden, recorded(golden))) == set()


def test_a_recorded_difference_is_shown_apart_from_the_distance(golden: Golden) -> None:
    outputs = recorded(golden)
    for party in (Party.stock, Party.fork):
        outputs[party]["text"] = CHANGES[Stage.logits](outputs[party]["text"], 2e-4)
    rows = {(row.stage, row.party): row for row in compare(golden, outputs)}
    for stage in stages_of(golden):
        expected = [case.apart[stage] for case in golden.cases.values() if stage in case.apart]
        for party in (Party.stock, Party.fork):
            known = rows[stage, party].known
            assert known == (pytest.approx(max(expected), rel=0.01) if expected else None)
        assert rows[stage, Party.third_party].known is None
    row = rows[Stage.logits, Party.stock]
    assert (row.distance, row.case) == (pytest.approx(2e-4, rel=0.1), "text")


@pytest.mark.parametrize("party", Party)
def test_another_output_of_any_party_is_seen(golden: Golden, party: Party) -> None:
    for stage in stages_of(golden):
        outputs = recorded(golden)
        outputs[party]["photo"] = CHANGES[stage](outputs[party]["photo"], 0.01)
        seen = breaches(compare(golden, outputs))
        assert (stage, party) in seen
        assert {found for found, _ in seen} == {stage}
        assert Party.third_party not in {who for _, who in seen} or party is Party.third_party


@pytest.mark.parametrize("stage", [Stage.embeddings, Stage.logits])
def test_sums_in_another_order_are_no_breach_but_a_fork_has_stocks_order(
    golden: Golden, stage: Stage
) -> None:
    within = TOLERANCE[stage] / 2
    outputs = recorded(golden)
    for party in (Party.third_party, Party.stock):
        outputs[party]["photo"] = CHANGES[stage](outputs[party]["photo"], within)
    outputs[Party.fork]["photo"] = outputs[Party.stock]["photo"]
    assert breaches(compare(golden, outputs)) == set()
    outputs[Party.fork]["photo"] = recorded(golden)[Party.stock]["photo"]
    assert breaches(compare(golden, outputs)) == {(stage, Party.fork)}


def test_a_stock_that_comes_to_agree_with_the_third_party_is_told_too(golden: Golden) -> None:
    outputs = recorded(golden)
    for party in (Party.stock, Party.fork):
        outputs[party]["transparent"] = golden.cases["transparent"].third_party
    assert (Stage.inputs, Party.stock) in breaches(compare(golden, outputs))


def test_a_difference_that_the_spec_does_not_explain_is_not_recorded(golden: Golden) -> None:
    theirs = golden.cases["text"].third_party
    ours = {"text": CHANGES[Stage.logits](theirs, 0.01)}
    case = Case("text", "", "", ())
    assert make_golden(load_spec(golden.model), "", [case], {"text": theirs}, {"text": theirs}, "").cases
    with pytest.raises(EquivalenceError, match=r"case text: stock differs .* from the logits on, by 0\.01"):
        make_golden(load_spec(golden.model), "", [case], {"text": theirs}, ours, "")


def test_a_changed_value_of_a_file_is_seen(golden: Golden, copy: Path) -> None:
    path = golden_path(copy, golden.model)
    content = json.loads(path.read_text("utf-8"))
    content["cases"]["photo"]["third_party"]["tokens"][0] += 1
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(EquivalenceError, match="was changed after it was recorded"):
        read_golden(copy, golden.model)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"sha256": "", "format": 2}', "\udcff"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text, "utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match="no file of golden outputs"):
        read_golden(tmp_path, "model")


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="vlmopt golden record --model model"):
        read_golden(tmp_path, "model")


def test_other_outputs_are_not_overwritten_unasked(golden: Golden, copy: Path) -> None:
    path = golden_path(copy, golden.model)
    before = path.read_bytes()
    assert write_golden(copy, golden, force=False) == "unchanged"
    other = golden.model_copy(update={"seed": golden.seed + 1})
    with pytest.raises(EquivalenceError, match=r"\(seed\); nothing was written") as refused:
        write_golden(copy, other, force=False)
    assert refused.value.exit_code == 1
    assert path.read_bytes() == before
    assert write_golden(copy, other, force=True) == "replaced"
    assert read_golden(copy, golden.model) == other
    path.unlink()
    assert write_golden(copy, golden, force=False) == "new"
    assert path.read_bytes() == before
    assert [each.name for each in copy.iterdir()] == [path.name]


def test_the_report_tells_each_stage_of_each_party(golden: Golden, capsys: pytest.CaptureFixture) -> None:
    outputs = recorded(golden)
    for bad in (False, True):
        if bad:
            outputs[Party.fork]["photo"] = change_tokens(outputs[Party.fork]["photo"], 1)
        checked = Checked(golden, None, {**golden.versions, "vllm": "9.9"}, outputs, compare(golden, outputs))
        told = json.loads(json.dumps(checked_object([checked]), allow_nan=False))
        assert told["holds"] is checked.holds is not bad
        (model,) = told["models"]
        assert [(row["stage"], row["party"]) for row in model["rows"]] == [
            (s, p) for s in stages_of(golden) for p in Party
        ]
        assert [row["breaches"] for row in model["rows"] if row["breaches"]] == ([["photo"]] if bad else [])
        show(checked_tables([checked]))
        text = capsys.readouterr().out
        told_of_stock = "stock differs in photo" in text
        assert text.count("differs in photo") == told_of_stock + bad
        assert text.endswith(f"recorded with other versions: vllm 9.9 instead of {golden.vllm}\n")
        assert text.count("stock differs in ") == len({case.why for case in golden.cases.values()}) - 1


def test_distances_are_of_what_differs() -> None:
    def output(**change: object) -> Output:
        tensor = Summary(shape=(2,), dtype="float32", sha256="a", samples=(1.0, 2.0))
        return Output(
            **{
                "token_ids": ((5, 3), (6, 1)),
                "inputs": {"pixels": tensor},
                "embeddings": tensor,
                "logits": (((1, 3.0), (2, 1.0)),),
                "tokens": (1,),
                **change,
            }
        )

    tensor = output().inputs["pixels"]
    same = output()
    assert distance(Stage.token_ids, same, output(token_ids=((5, 2), (7, 2)))).value == 2
    assert distance(Stage.token_ids, same, output(token_ids=((5, 3),))).value == 1
    moved = tensor.model_copy(update={"samples": (1.0, 2.5), "sha256": "b"})
    assert distance(Stage.inputs, same, output(inputs={"pixels": moved})).value == 0.5
    elsewhere = distance(Stage.embeddings, same, output(embeddings=tensor.model_copy(update={"sha256": "b"})))
    assert (elsewhere.value, elsewhere.equal) == (0, False)
    assert distance(Stage.inputs, same, output(inputs={})).value == float("inf")
    narrow = tensor.model_copy(update={"dtype": "uint8"})
    assert distance(Stage.inputs, same, output(inputs={"pixels": narrow})).value == float("inf")
    assert distance(Stage.logits, same, output(logits=(((1, 3.0), (9, 1.5)),))).value == 0.5
    not_a_number = output(logits=(((1, float("nan")), (2, 1.0)),))
    assert distance(Stage.logits, same, not_a_number).value == float("inf")
    assert all(distance(stage, same, output()).equal for stage in Stage)
