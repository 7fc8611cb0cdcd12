"""Training: packed questions are what they are alone, the loss falls, and a resumed run changes nothing."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.argus.conftest import smaller_member
from tests.argus.test_coco import write
from vlmopt.argus import checkpoint, needs
from vlmopt.argus.errors import InputError
from vlmopt.argus.modeling import IGNORED
from vlmopt.argus.scenes import Scenes
from vlmopt.argus.training.folder import record_of
from vlmopt.argus.training.packing import Packer, TaskSamples
from vlmopt.argus.training.run import Options, train
from vlmopt.cli import app
from vlmopt.errors import UsageError

STEPS = 8


class Broken(Exception):
    """What ends a run in the middle."""


@pytest.fixture(scope="module")
def member(tmp_path_factory):
    """A member that is smaller than the smallest, as a file."""
    return smaller_member(tmp_path_factory.mktemp("member"), steps=STEPS, batch=4, learning_rate=0.01)


def options(member, out, **more):
    return Options(**{"member": member, "number": 2, "out": out, "threads": 1, "save_every": 3, **more})


def weights(folder):
    return load_file(folder / "model.safetensors")


def same(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.fixture(scope="module")
def trained(member, tmp_path_factory):
    """(result, folder) of a whole run."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    return train(options(member, folder)), folder


def test_packed_questions_are_what_they_are_alone(tiny):
    model, processor = tiny
    samples = [Scenes("train", count=4)[index] for index in (0, 3)]
    batch = Packer(processor)(samples)
    assert batch["input_ids"].shape == batch["labels"].shape == batch["position_ids"].shape
    with torch.no_grad():
        packed = model(**batch).logits
    for row, sample in enumerate(samples):
        labels = batch["labels"][row]
        at = 0
        for example in sample.examples:
            prompt = processor(
                images=sample.image(), text=processor.prompt(example.question), return_tensors="pt"
            )
            answer = processor.tokenizer(example.text(processor.boxes) + "<|im_end|>", return_tensors="pt")
            ids = torch.cat([prompt["input_ids"], answer["input_ids"]], dim=1)
            with torch.no_grad():
                alone = model(input_ids=ids, pixel_values=prompt["pixel_values"]).logits[0]
            count = answer["input_ids"].shape[1]
            while labels[at] == IGNORED:
                at += 1
            assert labels[at : at + count].tolist() == answer["input_ids"][0].tolist()
            torch.testing.assert_close(
                packed[row, at - 1 : at + count - 1], alone[-count - 1 : -1], atol=2e-3, rtol=1e-3
            )
            at += count
        assert (labels[at:] == IGNORED).all()


def test_only_the_asked_tasks_are_learnt(tmp_path):
    samples = TaskSamples(Scenes("train", count=5), ["vqa"], 3)
    for index in range(5):
        assert [example.task for example in samples[index].examples] == ["vqa"] * 3
    assert samples[1].examples == samples[1].examples
    with pytest.raises(InputError, match="no sample has an example of nothing"):
        TaskSamples(Scenes("train", count=5), ["nothing"], 3)[0]


def test_the_loss_falls_and_the_model_is_saved(trained):
    result, folder = trained
    assert (result.steps, result.stage, [step for step, _ in result.losses]) == (
        STEPS,
        2,
        [*range(1, STEPS + 1)],
    )
    assert result.losses[-1][1] < 0.8 * result.losses[0][1]
    record = json.loads((folder / "training.json").read_text("utf-8"))
    assert record["losses"] == [list(pair) for pair in result.losses]
    assert not (folder / "checkpoints").exists()
    model, processor = checkpoint.load(folder)
    inputs = processor(
        images=Scenes("heldout")[0].image(),
        text=processor.prompt("Is there a red star?"),
        return_tensors="pt",
    )
    assert model.generate(**inputs, max_new_tokens=3).shape[1] > inputs["input_ids"].shape[1]


def test_the_same_seed_gives_the_same_weights(member, trained, tmp_path):
    train(options(member, tmp_path / "again"))
    assert same(weights(tmp_path / "again"), weights(trained[1]))
    train(options(member, tmp_path / "other", seed=1))
    assert not same(weights(tmp_path / "other"), weights(trained[1]))


def test_a_run_that_was_broken_off_ends_as_if_it_had_not_been(member, trained, tmp_path):
    def until(last):
        def tick(what, done, total):
            if done == last:
                raise Broken

        return tick

    with pytest.raises(Broken):
        train(options(member, tmp_path / "model"), until(5))
    # A state that was cut short while it was written is passed over.
    (tmp_path / "model" / "checkpoints" / "checkpoint-5").mkdir()
    with pytest.raises(InputError, match="holds a run that was broken off: resume it"):
        train(options(member, tmp_path / "model"))
    with pytest.raises(InputError, match="holds a run with seed 0, not 7: resume it with the same options"):
        train(options(member, tmp_path / "model", resume=True, seed=7))
    seen = []
    result = train(
        options(member, tmp_path / "model", resume=True), lambda what, done, total: seen.append(done)
    )
    assert seen == [4, 5, 6, 7, 8]
    assert result.losses == trained[0].losses
    assert same(weights(tmp_path / "model"), weights(trained[1]))


def test_looking_at_the_model_on_the_way_changes_nothing(member, trained, tmp_path):
    seen = []

    def look(step, model, processor):
        seen.append((step, model.training, processor.boxes.name, model.lm_head.weight.sum().item()))

    train(options(member, tmp_path / "watched"), each_step=look)
    assert [one[:3] for one in seen] == [(step, True, "bin") for step in range(1, STEPS + 1)]
    assert len({one[3] for one in seen}) == STEPS
    assert same(weights(tmp_path / "watched"), weights(trained[1]))


def test_the_first_stage_can_keep_all_but_the_projector(member, tmp_path):
    text = Path(member).read_text("utf-8").replace("learns: all", "learns: projector")
    (tmp_path / "kept.yaml").write_text(text, "utf-8")
    first, second = tmp_path / "first", tmp_path / "second"
    train(options(str(tmp_path / "kept.yaml"), first, number=1, steps=1))
    train(options(str(tmp_path / "kept.yaml"), second, number=1, steps=3))
    before, after = weights(first), weights(second)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.startswith("model.projector.") for name in changed)
    third = tmp_path / "third"
    train(options(member, third, number=2, start=second, steps=3))
    assert record_of(third)["before"] == record_of(second)
    assert record_of(second)["before"] is None
    changed = {name for name in before if not torch.equal(weights(third)[name], after[name])}
    assert any("vision_tower" in name for name in changed)
    assert any("language_model" in name for name in changed)


def test_a_member_can_be_trained_with_adamw_alone(member, tmp_path):
    text = Path(member).read_text("utf-8").replace("optimizer: muon", "optimizer: adamw")
    (tmp_path / "plain.yaml").write_text(text, "utf-8")
    # The first step is taken at a learning rate of 0.
    train(options(member, tmp_path / "muon", steps=2))
    train(options(str(tmp_path / "plain.yaml"), tmp_path / "adamw", steps=2))
    assert not same(weights(tmp_path / "adamw"), weights(tmp_path / "muon"))


def test_a_record_that_cannot_be_read_is_told_before_training(member, trained, tmp_path):
    start = tmp_path / "start"
    shutil.copytree(trained[1], start)
    (start / "training.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match=r"training\.json cannot be read"):
        train(options(member, tmp_path / "out", start=start))


@pytest.mark.parametrize("form", ["float", "codebook"])
def test_the_command_trains_in_another_box_format_on_a_coco_folder(member, form, tmp_path):
    folder = write(tmp_path / "coco")
    Image.new("RGB", (50, 80)).save(folder / "train" / "a.png")
    arguments = ["argus", "train", "--stage", "2", "--model", member, "--steps", "2", "--batch", "2"]
    arguments += ["--threads", "1", "--boxes", form, "--data", f"{folder}:train", "--json"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["steps"] == 2
    _, processor = checkpoint.load(tmp_path / "out")
    assert processor.boxes.name == form


WRONG = [
    ({"resume": True}, "nothing to resume"),
    ({"steps": 0}, "steps 0: it must be above 0"),
    ({"data": "photos"}, "give `scenes`, or FOLDER:SPLIT"),
    ({"number": 3}, "trained in stages 1 and 2, not 3"),
    ({"form": "polar"}, "no box format is named 'polar'"),
]


@pytest.mark.parametrize(("more", "message"), WRONG)
def test_options_that_mean_nothing_are_refused(member, more, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        train(options(member, tmp_path / "out", **more))


def test_a_missing_library_is_a_clear_error(monkeypatch):
    monkeypatch.setattr("vlmopt.needs.find_spec", lambda name: None if name == "accelerate" else name)
    with pytest.raises(UsageError, match="needs accelerate: install them"):
        needs.argus()


def test_folders_that_do_not_fit_are_refused(member, trained, tmp_path):
    with pytest.raises(InputError, match="is not empty: choose another folder"):
        train(options(member, trained[1]))
    with pytest.raises(InputError, match=r"no checkpoint in .*: it has no config\.json"):
        train(options(member, tmp_path / "out", start=tmp_path))
    with pytest.raises(InputError, match="a checkpoint brings its own parts"):
        train(options(member, tmp_path / "out", start=trained[1], form="float"))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(InputError, match="of a model of type 'llama', not 'argusvlm'"):
        checkpoint.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "argusvlm"}')
    with pytest.raises(InputError, match="cannot be read"):
        checkpoint.load(tmp_path)
