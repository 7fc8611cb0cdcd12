"""`vlmopt argus show` answers and draws, and says in one line what it cannot take."""

import json
import shutil

import pytest
from PIL import Image, ImageChops

from tests.argus.program import vlmopt
from vlmopt.argus.boxes import Box, LabelledBox
from vlmopt.argus.drawing import COLORS, draw_boxes
from vlmopt.argus.evaluation.in_transformers import Transformers
from vlmopt.argus.evaluation.questions import Answer
from vlmopt.argus.scenes import Scenes

TEXT = "red star<box><bin_10><bin_20><bin_50><bin_60></box>; <box><bin_0><bin_0><bin_99><bin_99></box>"


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "scene.png"
    Scenes("heldout", count=1)[0].image().save(path)
    return path


@pytest.fixture
def saying(monkeypatch):
    """Makes the model say a text."""

    def says(text):
        monkeypatch.setattr(Transformers, "_generate", lambda *args: [Answer(text, (1,), (-1.0,))])

    return says


def test_boxes_and_labels_are_drawn_where_they_are():
    page = draw_boxes(Image.new("RGB", (64, 32)), [LabelledBox("star", Box(0.25, 0.5, 0.75, 1))])
    assert page.size == (512, 256)
    drawn = [(x, y) for x in range(512) for y in range(256) if page.getpixel((x, y)) != (0, 0, 0)]
    assert min(x for x, _ in drawn) == 127
    assert max(y for _, y in drawn) == 255
    assert {page.getpixel((127, 200)), page.getpixel((383, 200))} == {(0x56, 0xB4, 0xE9)}
    assert page.getpixel((255, 200)) == (0, 0, 0)
    # The label stands above the box, in black on the box's color.
    label = {page.getpixel((x, 120)) for x in range(130, 150)}
    assert (0x56, 0xB4, 0xE9) in label
    assert min(map(sum, label)) < 100
    assert len(set(COLORS)) == len(COLORS)


@pytest.mark.parametrize("size", [(1, 1), (1, 9000), (3000, 2)])
def test_any_box_can_be_drawn_on_any_picture(size):
    boxes = [LabelledBox("a long label " * 9, Box(0, 0, 0, 0)), LabelledBox("", Box(1, 1, 1, 1))]
    assert max(draw_boxes(Image.new("RGB", size), boxes).size) >= 512


def test_the_answer_is_told_and_drawn(checkpoint, picture, tmp_path, monkeypatch, capsys, saying):
    saying(TEXT)
    monkeypatch.chdir(tmp_path)
    words = ["argus", "show", picture, "--question", "Where is the red star?", "--checkpoint", checkpoint]
    code, out, err = vlmopt(monkeypatch, capsys, *words)
    assert (code, err) == (0, "")
    assert out == f"{TEXT}\nscene-boxes.png: the picture with 2 boxes\n"
    plain = Image.open(picture).resize((512, 512), Image.Resampling.BICUBIC)
    assert ImageChops.difference(Image.open("scene-boxes.png"), plain).getbbox() is not None
    code, out, _ = vlmopt(monkeypatch, capsys, *words, "--out", tmp_path / "other.png", "--json")
    told = json.loads(out)
    assert (code, told["answer"], told["out"]) == (0, TEXT, str(tmp_path / "other.png"))
    assert [box["label"] for box in told["boxes"]] == ["red star", ""]
    assert told["boxes"][0]["box"] == pytest.approx([10.5 / 99, 20.5 / 99, 50.5 / 99, 60.5 / 99])
    assert (tmp_path / "other.png").read_bytes() == (tmp_path / "scene-boxes.png").read_bytes()


def test_without_a_question_the_picture_is_described(checkpoint, picture, tmp_path, monkeypatch, capsys):
    words = ["argus", "show", picture, "--checkpoint", checkpoint, "--out", tmp_path / "a.png", "--json"]
    code, out, _ = vlmopt(monkeypatch, capsys, *words)
    assert (code, json.loads(out)["question"]) == (0, "Describe the picture with boxes.")
    assert len(json.loads(out)["answer"]) > 5


def test_a_malformed_box_is_told(checkpoint, picture, tmp_path, monkeypatch, capsys, saying):
    saying("star<box><bin_10></box>")
    words = ["argus", "show", picture, "--checkpoint", checkpoint, "--out", tmp_path / "a.png"]
    code, out, _ = vlmopt(monkeypatch, capsys, *words)
    assert code == 0
    assert "star<box><bin_10></box>\n" in out
    assert "no boxes, since one is malformed (a bin box is four tokens" in out


def test_a_picture_of_one_pixel_is_answered(checkpoint, tmp_path, monkeypatch, capsys):
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.png")
    words = ["argus", "show", tmp_path / "dot.png", "--checkpoint", checkpoint, "--out", tmp_path / "a.png"]
    code, out, err = vlmopt(monkeypatch, capsys, *words)
    assert (code, err) == (0, "")
    assert "the picture with" in out
    assert Image.open(tmp_path / "a.png").size == (512, 512)


def bad_pictures(folder, picture):
    whole = picture.read_bytes()
    (folder / "text.png").write_text("no picture")
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    return [
        ([], "one picture is shown at a time, not none"),
        ([picture, picture], "one picture is shown at a time, not 2"),
        ([folder / "nowhere.png"], "nowhere.png does not exist"),
        ([folder], "cannot be read as a picture"),
        ([folder / "text.png"], "text.png cannot be read as a picture"),
        ([folder / "cut.png"], "cut.png cannot be read as a picture"),
        ([folder / "empty.jpg"], "empty.jpg cannot be read as a picture"),
        ([picture, "--out", picture], "is the picture itself: name another file"),
        ([picture, "--out", folder / "a.bmp"], "name it .png"),
        ([picture, "--out", folder / "no" / "such" / "a.png"], "its folder does not exist"),
        ([picture, "--question", "two <image> pictures"], "the text has 2 <image> for 1 pictures"),
        ([picture, "--question", "star " * 1500], "this model takes"),
    ]


@pytest.mark.parametrize("number", range(12))
def test_bad_input_is_one_line(checkpoint, picture, tmp_path, monkeypatch, capsys, number):
    words, message = bad_pictures(tmp_path, picture)[number]
    monkeypatch.chdir(tmp_path)
    code, out, err = vlmopt(monkeypatch, capsys, "argus", "show", *words, "--checkpoint", checkpoint)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def missing(folder):
    shutil.rmtree(folder)


def foreign(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100_000])


def no_json(folder):
    (folder / "config.json").write_text("{")


def another_size(folder):
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] += 1
    (folder / "config.json").write_text(json.dumps(config))


def no_tokenizer(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def no_weights(folder):
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (missing, "it has no config.json"),
        (foreign, "is of a model of type 'llama', not 'argusvlm'"),
        (cut, "cannot be read"),
        (no_json, "cannot be read"),
        (another_size, "has missing keys: model.language_model.layers.4"),
        (no_tokenizer, "cannot be read"),
        (no_weights, "cannot be read"),
    ],
)
@pytest.mark.parametrize("command", ["show", "eval"])
def test_a_broken_checkpoint_is_one_line(
    checkpoint, picture, tmp_path, monkeypatch, capsys, breaks, message, command
):
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, folder)
    breaks(folder)
    words = {
        "show": ["show", picture, "--checkpoint", folder],
        "eval": ["eval", folder, "--engine", "transformers"],
    }[command]
    code, out, err = vlmopt(monkeypatch, capsys, "argus", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
