"""A folder in COCO's layout becomes samples, and a bad one a clear error."""

import json

import pytest
from PIL import Image

from vlmopt.argus.boxes import Box
from vlmopt.argus.coco import CocoFolder
from vlmopt.errors import UsageError

PICTURES = [
    {"id": 7, "file_name": "b.png", "width": 200, "height": 100},
    {"id": 3, "file_name": "a.png", "width": 50, "height": 80},
    {"id": 9, "file_name": "nothing said of it.png", "width": 5, "height": 5},
]
INSTANCES = {
    "info": {"year": 2017},
    "images": PICTURES,
    "categories": [{"id": 1, "name": "dog", "supercategory": "animal"}, {"id": 18, "name": "traffic light"}],
    "annotations": [
        {"id": 1, "image_id": 7, "category_id": 1, "bbox": [100, 20, 40, 30], "iscrowd": 0, "area": 9},
        {"id": 2, "image_id": 7, "category_id": 18, "bbox": [10.5, 0, 30, 30], "iscrowd": 0},
        {"id": 3, "image_id": 7, "category_id": 1, "bbox": [190, 90, 40, 30], "iscrowd": 0},
        {"id": 4, "image_id": 7, "category_id": 1, "bbox": [0, 0, 200, 100], "iscrowd": 1},
        {"id": 5, "image_id": 3, "category_id": 1, "bbox": [0, 0, 25, 40], "iscrowd": 0},
        {"id": 6, "image_id": 3, "category_id": 1, "bbox": [60, 0, 25, 40], "iscrowd": 0},
    ],
}
CAPTIONS = {
    "images": PICTURES,
    "annotations": [
        {"id": 1, "image_id": 7, "caption": "Two dogs  and a\ntraffic light. "},
        {"id": 2, "image_id": 7, "caption": "A street."},
    ],
}


def write(folder, instances=INSTANCES, captions=CAPTIONS, pictures="train"):
    (folder / "annotations").mkdir(parents=True)
    (folder / pictures).mkdir()
    for name, content in (("instances", instances), ("captions", captions)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / "annotations" / f"{name}_train.json").write_text(text)
    Image.new("L", (200, 100), 9).save(folder / pictures / "b.png")
    Image.new("RGB", (50, 81)).save(folder / pictures / "a.png")
    return folder


@pytest.mark.parametrize("pictures", ["train", "images"])
def test_pictures_come_with_captions_boxes_and_questions(tmp_path, pictures):
    folder = CocoFolder(write(tmp_path / "coco", pictures=pictures), "train")
    assert [folder[index].name for index in range(len(folder))] == ["a.png", "b.png"]
    sample = folder[1]
    assert (sample.image().size, sample.image().mode) == ((200, 100), "RGB")
    said = [(example.task, example.question, example.answer, example.boxes) for example in sample.examples]
    light, dog, edge = Box(0.0525, 0, 0.2025, 0.3), Box(0.5, 0.2, 0.7, 0.5), Box(0.95, 0.9, 1, 1)
    assert said == [
        ("caption", "Describe the picture.", "Two dogs and a traffic light.", ()),
        ("caption", "Describe the picture.", "A street.", ()),
        (
            "dense-caption",
            "Describe the picture with boxes.",
            "traffic light<box></box>; dog<box></box>; dog<box></box>",
            (light, dog, edge),
        ),
        ("grounding", "Where is the traffic light?", "<box></box>", (light,)),
        ("vqa", "Is there a dog?", "yes", ()),
    ]
    absent = [example for example in folder[0].examples if example.answer == "no"]
    assert [example.question for example in absent] == ["Is there a traffic light?"]
    assert [box for example in folder[0].examples for box in example.boxes] == [Box(0, 0, 0.5, 0.5)] * 2


def test_one_of_the_two_files_is_enough(tmp_path):
    only_captions = CocoFolder(write(tmp_path / "a", instances=None), "train")
    assert [len(only_captions), {e.task for e in only_captions[0].examples}] == [1, {"caption"}]
    only_boxes = CocoFolder(write(tmp_path / "b", captions=None), "train")
    assert len(only_boxes) == 2


BROKEN = [
    ({"instances": "{"}, "instances_train.json is not JSON"),
    ({"instances": {"images": []}}, "instances_train.json: categories: Field required"),
    (
        {"instances": {**INSTANCES, "annotations": [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3]}]}},
        "annotations.0.bbox",
    ),
    ({"instances": {**INSTANCES, "categories": []}}, "category 1, which is not defined"),
    ({"captions": {**CAPTIONS, "annotations": [{"image_id": 4, "caption": "x"}]}}, "picture 4, which is not"),
    ({"instances": None, "captions": None}, "neither instances_train.json nor captions_train.json"),
]


@pytest.mark.parametrize(("parts", "message"), BROKEN)
def test_a_broken_folder_is_a_clear_error(tmp_path, parts, message):
    with pytest.raises(UsageError, match=message):
        CocoFolder(write(tmp_path / "coco", **parts), "train")


def test_a_missing_or_other_picture_is_a_clear_error(tmp_path):
    root = write(tmp_path / "coco")
    folder = CocoFolder(root, "train")
    with pytest.raises(UsageError, match="50 x 81 pixels, its annotations say 50 x 80"):
        folder[0].image()
    (root / "train" / "b.png").write_bytes(b"no picture")
    with pytest.raises(UsageError, match=r"b\.png cannot be read as a picture"):
        folder[1].image()
    (root / "train" / "b.png").unlink()
    with pytest.raises(UsageError, match=r"the picture b\.png is not in"):
        folder[1].image()
    (root / "train" / "a.png").unlink()
    (root / "train").rmdir()
    with pytest.raises(UsageError, match="neither train/ nor images/ is there"):
        CocoFolder(root, "train")
