"""The files of public benchmarks become samples, and bad ones clear errors."""

import json
import pickle
import re

import pytest
from PIL import Image

from vlmopt.argus.boxes import Box
from vlmopt.argus.evaluation.data import open_data
from vlmopt.errors import UsageError

QUESTIONS = {
    "data_subtype": "val2014",
    "data_type": "mscoco",
    "questions": [
        {"image_id": 42, "question": "What color is it?", "question_id": 421},
        {"image_id": 7, "question": "Is it open?", "question_id": 70},
        {"image_id": 42, "question": "How many?", "question_id": 420},
    ],
}


def annotation(question, picture, kind, answer, people):
    return {
        "question_id": question,
        "image_id": picture,
        "question_type": "what",
        "answer_type": kind,
        "multiple_choice_answer": answer,
        "answers": [
            {"answer": each, "answer_confidence": "yes", "answer_id": number}
            for number, each in enumerate(people, 1)
        ],
    }


ANNOTATIONS = {
    "annotations": [
        annotation(420, 42, "number", "2", ["2"] * 9 + ["two"]),
        annotation(421, 42, "other", "red", ["red"] * 10),
        annotation(70, 7, "yes/no", "no", ["no"] * 10),
    ]
}


def written(folder, **contents):
    """Writes NAME.json for each, and gives their paths."""
    paths = []
    for name, content in contents.items():
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(content if isinstance(content, str) else json.dumps(content))
    return list(map(str, paths))


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    (folder / "val2014").mkdir(parents=True)
    Image.new("L", (30, 20), 9).save(folder / "val2014" / "COCO_val2014_000000000042.jpg")
    Image.new("RGB", (4, 4)).save(folder / "7.png")
    Image.new("RGB", (100, 50)).save(folder / "COCO_train2014_000000000005.jpg")
    Image.new("RGB", (10, 10)).save(folder / "COCO_train2014_000000000006.jpg")
    return folder


@pytest.mark.parametrize("turned", [False, True])
def test_vqa_questions_come_by_picture_with_ten_answers(tmp_path, images, turned):
    paths = written(tmp_path, questions=QUESTIONS, annotations=ANNOTATIONS)
    samples, _ = open_data(paths[::-1] if turned else paths, images)
    assert [samples[index].name for index in range(len(samples))] == ["7", "42"]
    assert [samples[index].image().size for index in (0, 1)] == [(4, 4), (30, 20)]
    assert samples[1].image().mode == "RGB"
    color, many = samples[1].examples
    assert (color.task, color.kind, color.question, color.answer) == (
        "vqa",
        "other",
        "What color is it?",
        "red",
    )
    assert many.references == ("2",) * 9 + ("two",)


def without(content, part, index, key):
    """`content` with one key of one entry left out."""
    copy = json.loads(json.dumps(content))
    del copy[part][index][key]
    return copy


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"questions": "{"}, "questions.json is not JSON"),
        (
            {"questions": without(QUESTIONS, "questions", 1, "image_id")},
            "questions.json: questions.1.image_id: Field",
        ),
        (
            {"annotations": {"annotations": []}},
            "questions.0: question 421 has no annotation in .*annotations",
        ),
        (
            {"annotations": {"annotations": [annotation(421, 9, "other", "x", ["x"])]}},
            "question 421 is about picture 42, its annotation in .* about 9",
        ),
        (
            {"annotations": {"annotations": [annotation(421, 42, "other", "x", [])]}},
            "annotations.json: annotations.0.answers: List should have at least 1 item",
        ),
        ({"annotations": {}}, "neither .* has VQA's 'annotations'"),
        ({"annotations": []}, "neither .* has VQA's 'annotations'"),
    ],
)
def test_broken_vqa_files_are_clear_errors(tmp_path, images, parts, message):
    paths = written(tmp_path, **{"questions": QUESTIONS, "annotations": ANNOTATIONS} | parts)
    with pytest.raises(UsageError, match=message):
        open_data(paths, images)


def test_a_missing_picture_of_vqa_is_a_clear_error(tmp_path, images):
    (images / "7.png").unlink()
    samples, _ = open_data(written(tmp_path, questions=QUESTIONS, annotations=ANNOTATIONS), images)
    with pytest.raises(UsageError, match=r"the picture COCO_val2014_000000000007.jpg is not in"):
        samples[0].image()


INSTANCES = {
    "images": [
        {"id": 5, "file_name": "COCO_train2014_000000000005.jpg", "width": 100, "height": 50},
        {"id": 6, "file_name": "COCO_train2014_000000000006.jpg", "width": 10, "height": 12},
    ],
    "annotations": [
        {"id": 50, "image_id": 5, "category_id": 1, "bbox": [10, 10, 40, 20]},
        {"id": 51, "image_id": 5, "category_id": 1, "bbox": [90, 0, 20, 50]},
        {"id": 60, "image_id": 6, "category_id": 1, "bbox": [20, 0, 5, 5]},
    ],
    "categories": [{"id": 1, "name": "cup"}],
}


def ref(number, annotation, picture, split, *phrases):
    return {
        "ref_id": number,
        "ann_id": annotation,
        "image_id": picture,
        "category_id": 1,
        "file_name": "COCO_train2014_000000000005_1.jpg",
        "split": split,
        "sent_ids": list(range(len(phrases))),
        "sentences": [{"raw": p.title(), "sent": p, "tokens": p.split(), "sent_id": 0} for p in phrases],
    }


REFS = [
    ref(1, 50, 5, "testA", "left cup", "the red cup"),
    ref(2, 51, 5, "val", "right cup"),
    ref(3, 60, 6, "train", "a cup"),
    ref(4, 51, 5, "testA", "cup at the edge"),
]


@pytest.mark.parametrize("pickled", [False, True])
def test_refer_phrases_come_by_picture_with_their_boxes(tmp_path, images, pickled):
    written(tmp_path, instances=INSTANCES)
    (path,) = written(tmp_path, refs=REFS)
    if pickled:
        path = str(tmp_path / "refs(unc).p")
        with open(path, "wb") as file:
            pickle.dump(REFS, file, protocol=2)
    samples, _ = open_data([f"{path}:testA"], images)
    assert len(samples) == 1
    assert samples[0].image().size == (100, 50)
    assert [(each.task, each.question, each.boxes) for each in samples[0].examples] == [
        ("grounding", "Where is left cup?", (Box(0.1, 0.2, 0.5, 0.6),)),
        ("grounding", "Where is the red cup?", (Box(0.1, 0.2, 0.5, 0.6),)),
        ("grounding", "Where is cup at the edge?", (Box(0.9, 0, 1, 1),)),
    ]


MDETR = {
    "images": [
        {**INSTANCES["images"][0], "id": 0, "caption": "left cup", "original_id": 5},
        {**INSTANCES["images"][0], "id": 1, "caption": "right cup", "original_id": 5},
        {**INSTANCES["images"][1], "id": 2, "caption": "a cup", "original_id": 6},
    ],
    "annotations": [
        {"image_id": 1, "bbox": [90, 0, 20, 50], "id": 1, "tokens_positive": [[0, 9]]},
        {"image_id": 0, "bbox": [10, 10, 40, 20], "id": 0},
        {"image_id": 2, "bbox": [0, 0, 5, 6], "id": 2},
    ],
}


def test_mdetr_phrases_come_by_picture_with_their_boxes(tmp_path, images):
    samples, _ = open_data(written(tmp_path, finetune_val=MDETR), images)
    assert [len(samples[index].examples) for index in range(len(samples))] == [2, 1]
    assert samples[0].examples[1].question == "Where is right cup?"
    assert samples[0].examples[1].boxes == (Box(0.9, 0, 1, 1),)
    with pytest.raises(UsageError, match=r"6\.jpg is 10 x 10 pixels, its annotations say 10 x 12"):
        samples[1].image()


class Evil:
    def __reduce__(self):
        return print, ("harm",)


def test_a_pickle_that_would_run_code_is_refused(tmp_path, images, capsys):
    path = tmp_path / "refs.p"
    path.write_bytes(pickle.dumps([Evil()]))
    with pytest.raises(
        UsageError, match=r"refs.p cannot be read as a pickle: it holds more than plain values"
    ):
        open_data([f"{path}:val"], images)
    assert capsys.readouterr().out == ""
    path.write_bytes(b"no pickle")
    with pytest.raises(UsageError, match="cannot be read as a pickle"):
        open_data([f"{path}:val"], images)


@pytest.mark.parametrize(
    ("content", "split", "message"),
    [
        (REFS, ":test", "has no split 'test': choose testA, val, train, as FILE:SPLIT"),
        (REFS, "", "has several splits: choose testA, val, train"),
        (
            [{**REFS[0], "ann_id": 9}],
            ":testA",
            "0: ref 1 names annotation 9, which is not in .*instances.json",
        ),
        ([{**REFS[0], "image_id": 9}], ":testA", "0: ref 1 names picture 9"),
        ([{**REFS[0], "split": None}], ":testA", "refs.json: 0.split: Input should be a valid string"),
        (REFS, ":train", re.escape("2: ref 3: the box [20.0, 0.0, 5.0, 5.0] lies outside its picture")),
        (MDETR, ":val", "holds one split alone: name none"),
        ({**MDETR, "annotations": []}, "", "images.0: no annotation is about picture 0"),
        ({"images": []}, "", "refs.json: images: List should have at least 1 item"),
    ],
)
def test_broken_phrase_files_are_clear_errors(tmp_path, images, content, split, message):
    written(tmp_path, instances=INSTANCES)
    (path,) = written(tmp_path, refs=content)
    with pytest.raises(UsageError, match=message):
        open_data([path + split], images)


def test_what_does_not_go_together_is_a_clear_error(tmp_path, images):
    (path,) = written(tmp_path, refs=MDETR)
    for names, folder, message in [
        ([path], None, "give their folder with --images"),
        ([path], tmp_path / "nowhere", "--images .*nowhere is no folder"),
        ([str(images)], images, "name a split of this folder, as DIR:SPLIT"),
        ([str(tmp_path / "nothing.json")], images, "nothing.json cannot be read: No such file"),
        ([path, path, path], images, "give `scenes`, DIR:SPLIT, FILE:SPLIT, or the two files of VQA"),
        (["scenes", path], images, "give `scenes`"),
    ]:
        with pytest.raises(UsageError, match=message):
            open_data(names, folder)


def test_scenes_are_held_out_and_as_many_as_asked_for():
    samples, said = open_data(["scenes"], None, seed=3, count=5)
    assert (len(samples), samples[0].name, said) == (5, "heldout/3/0", "held-out scenes of seed 3")
