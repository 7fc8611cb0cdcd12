"""The study: its runs go on where they were broken off, and its page says what was measured."""

import json
import subprocess
import sys
from pathlib import Path

import argus_arms
import argus_runs
import argus_study
import pytest
import torch
from argus_draw import draw, section, with_section
from argus_record import Budget, Latency, Point, Run, Spread, Study, load_study
from argus_scores import HeldOut
from safetensors.torch import load_file

from tests.argus.conftest import smaller_member
from vlmopt.argus import checkpoint
from vlmopt.argus.boxes import load_format
from vlmopt.argus.build import build_config, build_model, build_processor, count_parameters
from vlmopt.argus.family import load_member
from vlmopt.argus.training.run import train
from vlmopt.errors import UsageError
from vlmopt.measure.machine import machine_here

BENCHMARKS = Path(argus_study.__file__).parent
PAGE = BENCHMARKS.parent / "docs" / "argus.md"
RESULTS = PAGE.parent / "figures" / "argus_study.json"
FEW = Budget(steps=4, batch=2, threads=1, points=2, questions=4)
TIMED = Latency(
    parameters=2_000_000,
    tokens=7,
    repeats=3,
    first_token=Spread(median=0.02, low=0.019, high=0.021),
    answer=Spread(median=0.05, low=0.04, high=0.06),
)


@pytest.fixture(scope="module")
def member(tmp_path_factory):
    """A member that is smaller than the smallest, as a file."""
    return smaller_member(tmp_path_factory.mktemp("member"))


def run_of(kind, arm, seed, accuracies):
    points = tuple(
        Point(step=100 * number, accuracy=accuracy, mean_iou=accuracy / 2, parse_failures=0, seconds=1)
        for number, accuracy in enumerate(accuracies, 1)
    )
    return Run(
        kind=kind,
        arm=arm,
        seed=seed,
        parameters=1_800_000,
        box_tokens=6,
        points=points,
        losses=((1, 2.0), (2, 1.25)),
        seconds=10,
        command="vlmopt argus train",
    )


def study_of(sizes=True, **formats):
    """Of each format the accuracies over the steps, for each seed."""
    runs = {
        f"format-{arm}-seed{seed}": run_of("format", arm, seed, accuracies)
        for arm, seeds in formats.items()
        for seed, accuracies in enumerate(seeds)
    }
    latency = {}
    if sizes:
        runs |= {
            f"size-{arm}-seed0": run_of("size", arm, 0, (0.1, final))
            for arm, final in (("small", 0.2), ("large", 0.9))
        }
        slow = TIMED.model_copy(update={"answer": Spread(median=0.1, low=0.1, high=0.1)})
        latency = {"small": TIMED, "tiny": TIMED, "large": slow}
    return Study(
        started="2026-01-02T03:04:05+00:00",
        command="python benchmarks/argus_study.py docs/figures/argus_study.json",
        machine=machine_here(1),
        budget=Budget(steps=200, batch=2, threads=1, points=2, questions=9),
        jobs=2,
        runs=runs,
        latency=latency,
    )


@pytest.fixture
def task(member, monkeypatch):
    """A run of a few steps of the smaller member, in one of the formats."""
    monkeypatch.setattr(argus_arms, "BASE", member)
    monkeypatch.setattr(argus_arms, "ENCODER", None)  # that of the checkpoint is larger
    arms = {arm.name: arm for arm in argus_arms.FORMATS}
    return lambda work, form, budget=FEW: argus_runs.Task(arms[form], 0, budget, work)


@pytest.mark.parametrize("form", [pytest.param("float", marks=pytest.mark.long), "bin"])
def test_a_run_that_was_broken_off_ends_as_if_it_had_not_been(task, form, tmp_path, monkeypatch):
    whole = argus_runs.carry_out(task(tmp_path / "whole", form))
    assert [point.step for point in whole.points] == [2, 4]
    assert all(0 <= point.accuracy <= 1 - point.parse_failures for point in whole.points)
    assert whole.box_tokens == {"float": 21, "bin": 6}[form]
    assert whole.seconds > 0
    scores, calls = HeldOut.scores, []

    def breaks(self, model, processor):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return scores(self, model, processor)

    monkeypatch.setattr(HeldOut, "scores", breaks)
    with pytest.raises(KeyboardInterrupt):
        argus_runs.carry_out(task(tmp_path / "broken", form))
    broken = argus_runs.carry_out(task(tmp_path / "broken", form))
    # The first evaluation was not done again.
    assert len(calls) == 3
    untimed = {"points": {"__all__": {"seconds"}}, "seconds": True}
    assert broken.model_dump(exclude=untimed) == whole.model_dump(exclude=untimed)
    assert broken.seconds is None
    left, right = (
        load_file(next((tmp_path / each).glob("*/model.safetensors"))) for each in ("whole", "broken")
    )
    assert all(torch.equal(left[name], right[name]) for name in left)
    again = argus_runs.carry_out(task(tmp_path / "whole", form))
    assert again == whole
    other = task(tmp_path / "whole", form, FEW.model_copy(update={"batch": 3}))
    with pytest.raises(UsageError, match="holds a run with other options"):
        argus_runs.carry_out(other)


def test_evaluating_on_the_way_does_not_change_the_model(task, tmp_path):
    watched, plain = task(tmp_path / "watched", "bin"), task(tmp_path / "plain", "bin")
    argus_runs.carry_out(watched)
    train(plain.options())
    left, right = (load_file(each.options().out / "model.safetensors") for each in (watched, plain))
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_what_is_there_is_not_done_again(tmp_path, monkeypatch):
    results = tmp_path / "figures" / "study.json"
    held = study_of(float=[(0.1, 0.2)], bin=[(0.2, 0.4)])
    held.save(results)
    words = [
        "argus_study",
        str(results),
        "--seeds",
        "1",
        "--formats",
        "float",
        "bin",
        "--work",
        str(tmp_path),
    ]
    words += ["--steps", "200", "--batch", "2", "--points", "2", "--questions", "9"]
    monkeypatch.setattr(sys, "argv", words)
    assert argus_study.study(argus_study.options()) == held
    assert load_study(results) == held
    monkeypatch.setattr(sys, "argv", [*words, "--batch", "3"])
    with pytest.raises(UsageError, match="holds a study with batch 2, not 3"):
        argus_study.study(argus_study.options())
    results.write_text("{}")
    with pytest.raises(UsageError, match="is no study: started: Field required"):
        load_study(results)


FINDINGS = [
    # Bins are first and end highest, above every seed of the others.
    (
        {"bin": [(0.5, 0.6), (0.5, 0.7)], "float": [(0.1, 0.4), (0.1, 0.5)]},
        "holds here.",
        "Every seed of bins",
    ),
    (
        {"bin": [(0.5, 0.6), (0.5, 0.7)], "float": [(0.1, 0.4), (0.1, 0.6)]},
        "holds here in the means, but not for every seed.",
        "The seeds of bins and text overlap",
    ),
    (
        {"bin": [(0.5, 0.5)], "float": [(0.1, 0.6)]},
        "holds here in one part: bins converge fastest, but text locates best.",
        "With one seed nothing can be said of chance.",
    ),
    (
        {"bin": [(0.1, 0.9), (0.1, 0.5)], "codebook": [(0.5, 0.6), (0.5, 0.6)]},
        "in one part: bins locate best, but the codebook converges fastest.",
        "The seeds of bins and the codebook overlap",
    ),
    (
        {"bin": [(0.1, 0.2)], "codebook": [(0.1, 0.6)], "float": [(0.5, 0.5)]},
        "does not hold here: text converges fastest and the codebook locates best.",
        "the codebook 60.0%, text 50.0%, bins 20.0%",
    ),
    ({"bin": [(0.1, 0.05)], "float": [(0.1, 0.0)]}, "At most 5.0% was located", "too little to compare"),
    ({"bin": [(0.1, 0.5)]}, "Only one format was trained", "nothing to compare"),
    # A tie is no win.
    ({"bin": [(0.1, 0.5)], "float": [(0.1, 0.5)]}, "does not hold here", "text converges fastest"),
]


@pytest.mark.parametrize(("formats", "verdict", "words"), FINDINGS)
def test_the_sentences_come_from_the_numbers(formats, verdict, words):
    text = section(study_of(**formats))
    assert verdict in text
    assert words in text


def test_the_study_is_drawn_into_its_section(tmp_path):
    results = tmp_path / "docs" / "figures" / "argus_study.json"
    study = study_of(bin=[(0.25, 0.5), (0.25, 0.75)], float=[(0.0, 0.25)] * 2, codebook=[(0, 0.125)] * 2)
    study.save(results)
    page = tmp_path / "docs" / "argus.md"
    page.write_text("# ArgusVLM\n\nBefore.\n\n## Study\n\nold\n\n### Old\n\n## After\n\nText.\n")
    draw(results)
    text = page.read_text()
    assert text.startswith("# ArgusVLM\n\nBefore.\n\n## Study\n\n")
    assert text.endswith("\n\n## After\n\nText.\n")
    assert "\nold\n" not in text
    assert "### Old" not in text
    assert "| bin | 6.0 | 1,800,000 | 62.5% (50.0 to 75.0) | 0.312 (0.250 to 0.375) |" in text
    assert "| 100 | 0.0% | 0.000 | 0.0% | 25.0% | 0.125 | 0.0% | 0.0% | 0.000 | 0.0% |" in text
    # Half of 62.5% lies between 25% at step 100 and 62.5% at step 200.
    assert "31%, is reached at these steps: bins 117, text never, the codebook never." in text
    assert "| large | 2,000,000 | 1 | 90.0% | 0.450 | 20.0 ms (19.0 ms to 21.0 ms) | 100 ms" in text
    assert "From tiny to large: +27.5 points at IoU 0.5, +0.138 of mean IoU, 2.00 times" in text
    pictures = {path.name: path.read_bytes() for path in results.parent.glob("*.svg")}
    assert set(pictures) == {"argus-formats.svg", "argus-sizes.svg"}
    draw(results)
    assert page.read_text() == text
    assert {path.name: path.read_bytes() for path in results.parent.glob("*.svg")} == pictures
    assert with_section("# A\n", "## Study\n\nx\n") == "# A\n\n## Study\n\nx\n"


def test_what_is_compared_differs_in_nothing_else(tmp_path):
    tiny = load_member("argusvlm-tiny")
    float_, bin_, codebook = argus_arms.FORMATS
    written = {arm.name: load_member(str(arm.write(tmp_path))) for arm in (float_, bin_, codebook)}
    assert [arm.form for arm in (float_, bin_, codebook)] == [None, None, "codebook"]
    assert written["bin"].config == written["codebook"].config == tiny.config
    text = {**tiny.config["text_config"], "vocab_size": tiny.config["text_config"]["vocab_size"] - 100}
    assert written["float"].config == {**tiny.config, "text_config": text}
    assert load_format(written["float"].box_format).error == pytest.approx(
        load_format(tiny.box_format).error, rel=0.02
    )
    recipe = tiny.training[2].model_copy(update={"tasks": argus_arms.TASKS})
    totals = []
    for arm in (float_, bin_, codebook, *argus_arms.SIZES):
        member = arm.member()
        assert count_parameters(build_config(member)) == member.parameters
        assert member.training == {**tiny.training, 2: recipe}
        assert member.config["vision_config"] == tiny.config["vision_config"]
    for arm in argus_arms.SIZES:
        assert arm.member().box_format == tiny.box_format
        totals.append(arm.member().parameters.language)
    assert totals[0] < totals[1] / 4 < totals[2] / 8
    assert totals[1] == tiny.parameters.language
    layers, heads = (
        [arm.member().config["text_config"][name] for arm in argus_arms.SIZES]
        for name in ("num_hidden_layers", "num_attention_heads")
    )
    assert layers == heads == [2, 4, 6]


def test_every_run_begins_with_the_encoder_of_the_trained_checkpoint(tmp_path):
    trained = load_file(checkpoint.SHIPPED / "model.safetensors")
    for arm in argus_arms.SIZES:
        options = argus_runs.Task(arm, 3, FEW, tmp_path).options()
        member = load_member(options.member)
        model = build_model(member, build_processor(member), seed=options.seed, vision=options.vision)
        own = model.state_dict()
        seen = [name for name in trained if name.startswith("model.vision_tower.")]
        assert seen
        assert all(torch.equal(own[name], trained[name]) for name in seen)
        assert not any(
            name in own and torch.equal(own[name], trained[name])
            for name in trained
            if "q_proj" in name and name not in seen
        )


@pytest.mark.long
def test_the_program_trains_measures_and_draws(tmp_path):
    results = tmp_path / "docs" / "figures" / "argus_study.json"
    command = [sys.executable, str(BENCHMARKS / "argus_study.py"), str(results), "--seeds", "1"]
    command += ["--formats", "bin", "codebook", "--sizes", "small", "--steps", "4"]
    command += [
        "--batch",
        "2",
        "--points",
        "2",
        "--questions",
        "4",
        "--repeats",
        "3",
        "--work",
        str(tmp_path / "w"),
    ]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stderr.count("already there") == 3
    study = json.loads(results.read_text("utf-8"))
    assert set(study["runs"]) == {"format-bin-seed0", "format-codebook-seed0", "size-small-seed0"}
    assert set(study["latency"]) == {"small", "tiny", "large"}
    assert "## Study" in (tmp_path / "docs" / "argus.md").read_text("utf-8")


def test_the_page_says_what_the_results_hold():
    study = load_study(RESULTS)
    assert section(study) in PAGE.read_text("utf-8")
    runs = [run for run in study.runs.values() if run.kind == "format"]
    assert {run.arm for run in runs} == {arm.name for arm in argus_arms.FORMATS}
    # The same seeds, three or more, the same budget and the same data for each format.
    seeds = {arm.name: sorted(run.seed for run in runs if run.arm == arm.name) for arm in argus_arms.FORMATS}
    assert len(set(map(tuple, seeds.values()))) == 1
    assert all(len(each) >= 3 for each in seeds.values())
    assert {tuple(point.step for point in run.points) for run in runs} == {tuple(study.budget.evaluated())}
    assert set(study.latency) == {arm.name for arm in argus_arms.SIZES}
