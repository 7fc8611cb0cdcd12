"""The checkpoint that comes with vlmopt: how large it is, how it was made, how well it answers."""

import json
import re
import shlex
from pathlib import Path

import pytest

from vlmopt.argus import checkpoint
from vlmopt.argus.evaluation import run
from vlmopt.argus.family import load_member
from vlmopt.argus.training.folder import record_of

MOST_BYTES = 8_000_000
MOST_SECONDS = 60 * 60
PICTURES = 400
CHANGES = ("steps", "batch", "learning_rate")
# Another processor may tip an answer or two.
ROUNDING = 0.01
PAGE = Path(__file__).parents[2] / "docs" / "argus.md"


def section(title):
    """A section of the page about ArgusVLM."""
    _, _, after = PAGE.read_text("utf-8").partition(f"\n## {title}\n")
    return after.partition("\n## ")[0]


def test_it_is_small():
    assert sum(path.stat().st_size for path in checkpoint.shipped().iterdir()) <= MOST_BYTES


def test_the_commands_of_the_documentation_made_it_within_an_hour():
    made, record = [], record_of(checkpoint.shipped())
    while record is not None:
        made.insert(0, record)
        record = record["before"]
    commands = [
        shlex.split(line)
        for line in section("The trained checkpoint").splitlines()
        if line.startswith("    vlmopt argus train ")
    ]
    assert len(made) == len(commands) > 1
    recipe, outs = load_member("argusvlm-tiny").training, []
    for record, words in zip(made, commands, strict=True):
        asked, options = dict(zip(words[3::2], words[4::2], strict=True)), record["options"]
        assert asked.pop("--from", None) == options["start"] == (outs[-1] if outs else None)
        outs.append(asked.pop("--out"))
        number = int(asked.pop("--stage"))
        assert (options["member"], options["number"]) == ("argusvlm-tiny", number)
        assert options["seed"] == int(asked.pop("--seed", 0))
        given = {
            name.removeprefix("--").replace("-", "_"): json.loads(value) for name, value in asked.items()
        }
        assert given == {name: options[name] for name in CHANGES if options[name] is not None}
        assert record["recipe"] == recipe[number].model_copy(update=given).model_dump(mode="json")
        assert record["steps"] == record["recipe"]["steps"]
        assert options["data"] == "scenes"
        assert {options[name] for name in ("form", "tokenizer", "vision", "language")} == {None}
    assert sum(record["seconds"] for record in made) < MOST_SECONDS


@pytest.mark.slow
def test_it_answers_as_well_as_is_promised():
    result = run.evaluate(run.Options(engines=["transformers"], count=PICTURES))
    scores = result.scores["transformers"]
    assert scores.vqa.value >= 0.9
    assert scores.grounding.accuracy.value >= 0.8
    told = dict(re.findall(r"^\| (.*?) \| ([0-9.]+) \|$", section("The trained checkpoint"), re.M))
    assert {name: float(value) for name, value in told.items()} == pytest.approx(
        {
            "VQA accuracy": scores.vqa.value,
            "caption match": scores.captions.value,
            "grounding accuracy": scores.grounding.accuracy.value,
            "mean IoU": scores.grounding.mean_iou,
            "dense captions": scores.dense_captions.mean_average_precision,
        },
        abs=ROUNDING,
    )
