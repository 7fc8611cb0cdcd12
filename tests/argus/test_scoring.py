"""Scores are what their definitions say: by examples, and over generated answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.argus.boxes import Box, BoxError, LabelledBox
from vlmopt.argus.evaluation import vqa_accuracy
from vlmopt.argus.evaluation.detection import (
    THRESHOLDS,
    Detection,
    average_precision,
    mean_average_precision,
)
from vlmopt.argus.evaluation.questions import Answer, Question
from vlmopt.argus.evaluation.scoring import confidences, score, things_of
from vlmopt.argus.examples import caption, dense_caption, grounding, vqa

WHOLE, LEFT, TOP = Box(0, 0, 1, 1), Box(0, 0, 0.5, 1), Box(0, 0, 1, 0.5)

edges = st.tuples(st.floats(0, 1, width=32), st.floats(0, 1, width=32)).map(sorted)
boxes = st.builds(lambda x, y: Box(x[0], y[0], x[1], y[1]), edges, edges)
solid = boxes.filter(lambda box: box.area > 1e-6)
labels = st.sampled_from(["red star", "circle"])
things = st.lists(st.lists(st.builds(LabelledBox, labels, solid), max_size=3), min_size=1, max_size=3).filter(
    any
)


def detections(pictures):
    one = st.builds(
        Detection, st.integers(0, pictures - 1), labels, boxes, st.sampled_from([-3.0, -2.0, -1.0, 0.0])
    )
    return st.lists(one, max_size=8)


cases = things.flatmap(lambda truth: st.tuples(detections(len(truth)), st.just(truth)))


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("The  Two dogs.", "2 dogs"),
        ("1,000", "1000"),
        ("3.5 m", "3.5 m"),
        ("U.S.", "us"),
        ("dont", "don't"),
        ("it's 10:30", "it's 10:30"),
        ("yes, it is!", "yes it is"),
        ("black-and-white", "black and white"),
        ("None", "0"),
        ("a", ""),
    ],
)
def test_answers_are_normalised_as_the_challenge_says(answer, normal):
    assert vqa_accuracy.normalise(answer) == normal


@given(st.text(alphabet="aAThe noT'.,:;-!?19d ", max_size=20))
def test_normalising_again_changes_nothing(answer):
    once = vqa_accuracy.normalise(answer)
    assert vqa_accuracy.normalise(once) == once


@pytest.mark.parametrize(("agreeing", "right"), [(0, 0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1), (10, 1)])
def test_the_accuracy_of_ten_people(agreeing, right):
    people = ["Yes"] * agreeing + ["no"] * (10 - agreeing)
    assert vqa_accuracy.accuracy("yes.", people) == pytest.approx(right)


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=12).flatmap(
        lambda p: st.tuples(st.just(p), st.permutations(p))
    )
)
def test_the_accuracy_does_not_depend_on_the_order_of_the_people(pair):
    people, shuffled = pair
    right = vqa_accuracy.accuracy("b", people)
    assert right == pytest.approx(vqa_accuracy.accuracy("b", shuffled))
    assert 0 <= right <= 1
    assert (right == 0) == ("b" not in people)


def test_one_person_is_matched_and_none_is_an_error():
    assert (vqa_accuracy.accuracy("red", ["Red"]), vqa_accuracy.accuracy("red", ["blue"])) == (1, 0)
    with pytest.raises(ValueError, match="no answers"):
        vqa_accuracy.accuracy("red", [])


def test_average_precision_by_hand():
    truth = [[LabelledBox("star", LEFT)], [LabelledBox("star", TOP), LabelledBox("dot", WHOLE)]]
    found = [
        Detection(0, "star", LEFT, -1),  # right: recall 1/3 at precision 1
        Detection(1, "star", LEFT, -2),  # overlaps TOP by 1/3
        Detection(0, "star", LEFT, -3),  # its thing is taken
        Detection(1, "dot", WHOLE, -4),  # right: recall 2/3 at precision 1/2
        Detection(1, "star", WHOLE, -5),  # overlaps TOP by 1/2: recall 1 at precision 3/5
    ]
    assert average_precision(found, truth, 0.5) == pytest.approx(1 / 3 + 2 / 3 * 3 / 5)
    assert average_precision(found, truth, 0.6) == pytest.approx(1 / 3 + 1 / 3 / 2)
    # All equally sure: one point of the curve, recall 1 at precision 3/5.
    tied = [Detection(one.picture, one.label, one.box, 0) for one in found]
    assert average_precision(tied, truth, 0.5) == pytest.approx(3 / 5)
    with pytest.raises(ValueError, match="something"):
        average_precision(found, [[], []], 0.5)


@given(things)
def test_perfect_answers_have_average_precision_one_and_silence_none(truth):
    found = [
        Detection(number, thing.label, thing.box, -0.5)
        for number, picture in enumerate(truth)
        for thing in picture
    ]
    mean, by_threshold = mean_average_precision(found, truth)
    assert mean == pytest.approx(1)
    assert by_threshold == pytest.approx(dict.fromkeys(THRESHOLDS, 1.0))
    assert mean_average_precision([], truth)[0] == 0
    assert mean_average_precision([Detection(d.picture, "sun", d.box, 0) for d in found], truth)[0] == 0


@given(cases, st.sampled_from(THRESHOLDS))
def test_a_wrong_box_at_the_end_changes_no_average_precision(case, threshold):
    found, truth = case
    area = average_precision(found, truth, threshold)
    assert 0 <= area <= 1 + 1e-9
    assert average_precision([*found, Detection(0, "sun", WHOLE, -9)], truth, threshold) == pytest.approx(
        area
    )
    # At the beginning it lowers all precision.
    first = average_precision([Detection(0, "sun", WHOLE, 9), *found], truth, threshold)
    assert first < area or area == 0


def test_confidence_is_the_log_probability_of_label_and_box():
    answer = Answer("x", (5, 1, 7, 1, 2), (-0.5, -1.0, -0.25, -0.125, -4.0))
    assert confidences(answer, 2, close=1) == [-1.5, -0.375]
    assert confidences(answer, 3, close=1) == [-5.875] * 3
    assert confidences(answer, 1, close=None) == [-5.875]


def ask(example, text):
    return Question("p", lambda: None, example), Answer(text, (1,), (-1.0,))


def find(text):
    """A box format for these tests: `label@whole`, `label@left`, `label@top`, by `;`."""
    known = {"whole": WHOLE, "left": LEFT, "top": TOP}
    parts = [part.partition("@") for part in text.split(";") if "@" in part]
    if any(name not in known for _, _, name in parts):
        raise BoxError("malformed")
    return [LabelledBox(label.strip(), known[name]) for label, _, name in parts]


def test_each_task_is_scored_with_its_own_measure():
    described = dense_caption([("star", LEFT), ("dot", TOP)])
    asked = [
        ask(vqa("color", "?", "red"), "Red."),
        ask(vqa("color", "?", "red"), "blue"),
        ask(vqa("count", "?", "2", ("2", "two", "3", "2")), "2"),
        ask(caption("a star on white"), "A star on  white."),
        ask(caption("a star on white"), "a dot on white"),
        ask(grounding("name", "the star", LEFT), "@left"),
        ask(grounding("name", "the star", LEFT), "@whole"),
        ask(grounding("name", "the star", LEFT), "@nowhere"),
        ask(grounding("color", "the star", LEFT), "nothing"),
        ask(described, "star@left;dot@top"),
        ask(described, "star@left;dot@nowhere"),
    ]
    scores = score(*zip(*asked, strict=True), find, None)
    assert (scores.vqa.value, scores.vqa.count) == (pytest.approx((1 + 0 + 3 / 4) / 3), 3)
    assert {kind: rate.count for kind, rate in scores.vqa_kinds.items()} == {"color": 2, "count": 1}
    assert (scores.captions.value, scores.captions.count) == (0.5, 2)
    assert (scores.grounding.accuracy.value, scores.grounding.mean_iou) == (0.5, 1.5 / 4)
    assert scores.grounding.parse_failures == 2
    assert scores.grounding.kinds["color"].value == 0
    assert (scores.dense_captions.count, scores.dense_captions.parse_failures) == (2, 1)
    assert scores.dense_captions.mean_average_precision == 0.5
    assert score([], [], find, None).grounding is None


def test_the_things_of_a_dense_caption_have_their_labels():
    described, _ = ask(dense_caption([("large red star", LEFT), ("dot", TOP)]), "")
    assert things_of(described) == [LabelledBox("large red star", LEFT), LabelledBox("dot", TOP)]
