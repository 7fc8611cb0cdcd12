"""Scenes: what is said of one is so, and the splits share nothing."""

import hashlib
import random
import re
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from vlmopt.argus.boxes import FloatFormat
from vlmopt.argus.examples import TASKS
from vlmopt.argus.scenes import SPLITS, Scenes, draw
from vlmopt.argus.scenes.language import BACKGROUNDS, COLORS, NAMES, RELATIONS
from vlmopt.argus.scenes.scene import make_scene
from vlmopt.argus.scenes.talk import examples
from vlmopt.errors import UsageError
from vlmopt.folders import golden_folder

TRAIN = Scenes("train", count=400)
ALL = [TRAIN.scene(index) for index in range(len(TRAIN))]
NOUNS = {**{name: name for name in NAMES["shape"]}}
NOUNS |= {f"{kind} {name}": name for kind in ("digit", "word") for name in NAMES[kind]}


def things_of(scene, noun):
    return [thing for thing in scene.things if thing.name == NOUNS[noun]]


def of_color(scene, color):
    return [thing for thing in scene.things if thing.color == color]


def center(thing):
    return np.array([thing.x + thing.width / 2, thing.y + thing.height / 2])


STANDS = {
    "left of": lambda one, other: center(one)[0] < center(other)[0],
    "right of": lambda one, other: center(one)[0] > center(other)[0],
    "above": lambda one, other: center(one)[1] < center(other)[1],
    "below": lambda one, other: center(one)[1] > center(other)[1],
}
# How to answer each kind of question by looking at the scene, from the question's words alone.
ANSWERS = {
    r"What color is the (.+)\?": lambda scene, noun: things_of(scene, noun)[0].color,
    r"What is (\w+)\?": lambda scene, color: next(
        noun for noun, name in NOUNS.items() if name == of_color(scene, color)[0].name
    ),
    r"Is the (\w+) (.+) large or small\?": lambda scene, color, noun: next(
        thing.size for thing in things_of(scene, noun) if thing.color == color
    ),
    r"Which (\w+) is there\?": lambda scene, kind: next(
        thing.name for thing in scene.things if thing.kind == kind
    ),
    r"How many things are there\?": lambda scene: str(len(scene.things)),
    r"How many (\w+) things are there\?": lambda scene, color: str(len(of_color(scene, color))),
    r"Is there an? (\w+) (.+)\?": lambda scene, color, noun: (
        "yes" if any(thing.color == color for thing in things_of(scene, noun)) else "no"
    ),
    rf"Is the (.+) ({'|'.join(RELATIONS)}) the (.+)\?": lambda scene, one, relation, other: (
        "yes" if STANDS[relation](things_of(scene, one)[0], things_of(scene, other)[0]) else "no"
    ),
}


def test_every_question_is_answered_as_the_scene_says():
    asked = Counter()
    for index, scene in enumerate(ALL):
        for example in TRAIN[index].examples:
            if example.task != "vqa":
                continue
            fits = [(answer, re.fullmatch(text, example.question)) for text, answer in ANSWERS.items()]
            ((answer, words),) = [(answer, match) for answer, match in fits if match]
            assert answer(scene, *words.groups()) == example.answer, (scene, example)
            asked[example.kind] += 1
    assert len(asked) == len(ANSWERS) + 1  # digits and words are asked for alike
    assert min(asked.values()) > 30


def test_a_referring_expression_fits_one_thing():
    kinds = Counter()
    for index, scene in enumerate(ALL):
        for example in TRAIN[index].examples:
            if example.task != "grounding":
                continue
            phrase = re.fullmatch(r"Where is the (.+)\?", example.question)[1]
            relation = re.fullmatch(rf"(\w+) ({'|'.join(RELATIONS)}) the (.+)", phrase)
            if relation:
                kind, where, noun = relation.groups()
                (anchor,) = things_of(scene, noun)
                fits = [
                    thing
                    for thing in scene.things
                    if thing.kind == kind and thing is not anchor and STANDS[where](thing, anchor)
                ]
            else:
                fits = [
                    thing
                    for thing in scene.things
                    if f" {thing.size} {thing.color} {thing.kind} {thing.name}".replace(
                        " shape ", " "
                    ).endswith(f" {phrase}")
                ]
            (thing,) = fits
            assert example.boxes == (scene.box(thing),)
            kinds[example.kind] += 1
    assert set(kinds) == {"name", "color", "full", "relation"}


def test_captions_name_all_things_from_left_to_right():
    for index, scene in enumerate(ALL[:50]):
        by_kind = {example.kind: example for example in TRAIN[index].examples}
        names = [thing.name for thing in scene.things]
        for example in (by_kind["caption"], by_kind["things"]):
            words = re.findall(r"\w+", example.answer)
            assert [word for word in words if word in NOUNS.values()] == names
        assert by_kind["caption"].answer.endswith(f" on {scene.background}")
        assert by_kind["things"].boxes == tuple(scene.box(thing) for thing in scene.things)
        assert [thing.x for thing in scene.things] == sorted(thing.x for thing in scene.things)
        assert len(FloatFormat().parse(by_kind["things"].text(FloatFormat()))) == len(scene.things)


@pytest.mark.parametrize("size", [(128, 128), (200, 90), (96, 96)])
def test_boxes_are_tight_around_what_is_drawn(size):
    scenes = Scenes("train", seed=3, count=60, size=size)
    for index in range(len(scenes)):
        scene = scenes.scene(index)
        pixels = np.asarray(draw(scene)).astype(int)
        assert pixels.shape == (size[1], size[0], 3)
        drawn = np.abs(pixels - BACKGROUNDS[scene.background]).max(axis=2) > 24
        covered = np.zeros_like(drawn)
        for thing in scene.things:
            part = drawn[thing.y : thing.y + thing.height, thing.x : thing.x + thing.width]
            covered[thing.y : thing.y + thing.height, thing.x : thing.x + thing.width] = True
            # An antialiased rim may be fainter than the threshold.
            slack = 0 if thing.kind == "shape" else 1
            rows, columns = np.flatnonzero(part.any(1)), np.flatnonzero(part.any(0))
            assert rows[0] <= slack
            assert columns[0] <= slack
            assert rows[-1] >= thing.height - 1 - slack
            assert columns[-1] >= thing.width - 1 - slack
            inked = pixels[thing.y : thing.y + thing.height, thing.x : thing.x + thing.width]
            assert (np.abs(inked - COLORS[thing.color]).max(axis=2) < 8).any()
        assert not (drawn & ~covered).any()


def test_the_same_number_gives_the_same_sample_always():
    digest = hashlib.sha256()
    for index in range(40):
        sample = TRAIN[index]
        assert sample.examples == Scenes("train", count=9999)[index].examples
        assert sample.image().tobytes() == TRAIN[index].image().tobytes()
        said = [(each.task, each.kind, each.question, each.answer, each.boxes) for each in sample.examples]
        digest.update(repr(said).encode())
    assert digest.hexdigest()[:16] == "82de5091806efd34"
    assert {Scenes("train", seed=1).scene(i).signature for i in range(20)} != {s.signature for s in ALL[:20]}


def test_the_splits_share_no_set_of_things():
    assert SPLITS == ("train", "heldout")
    heldout = Scenes("heldout", count=400)
    held = {heldout.scene(index).signature for index in range(len(heldout))}
    seen = {scene.signature for scene in ALL}
    assert not held & seen
    assert len(held) > 200
    # One of ten sets is held out, whatever its size.
    source = random.Random(0)
    scenes = [make_scene(source) for _ in range(400)]
    assert {len(scene.things) for scene in scenes} == {1, 2, 3, 4}


def test_answers_cannot_be_guessed_from_the_question():
    answers = {kind: Counter() for kind in ("presence", "relation", "size", "color")}
    for index in range(len(ALL)):
        for example in TRAIN[index].examples:
            if example.kind in answers and example.task == "vqa":
                answers[example.kind][example.answer] += 1
    for kind, counts in answers.items():
        assert max(counts.values()) < 0.62 * sum(counts.values()), kind


def test_all_tasks_occur_and_are_chosen_by_the_seed():
    assert {example.task for example in TRAIN[5].examples} == set(TASKS)
    scene = ALL[5]
    assert examples(scene, random.Random(1)) == examples(scene, random.Random(1))
    assert len({examples(scene, random.Random(seed)) for seed in range(9)}) > 1


def test_scenes_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match="no split 'test': choose train or heldout"):
        Scenes("test")
    with pytest.raises(UsageError, match="at least 48 x 48"):
        Scenes("train", size=(40, 128))
    with pytest.raises(UsageError, match="0 scenes"):
        Scenes("train", count=0)
    with pytest.raises(IndexError):
        TRAIN[400]


def test_the_scenes_of_the_golden_outputs_are_the_generators_own():
    scenes = Scenes("heldout", seed=7)
    files = sorted((golden_folder() / "images" / "scenes").iterdir())
    assert files
    for file in files:
        with Image.open(file) as picture:
            drawn = scenes[int(file.stem)].image()
            assert (picture.mode, picture.size) == (drawn.mode, drawn.size)
            assert picture.tobytes() == drawn.tobytes()
