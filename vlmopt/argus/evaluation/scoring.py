"""How right the answers to a list of questions are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vlmopt.argus.boxes import BoxError, LabelledBox
from vlmopt.argus.evaluation import vqa_accuracy
from vlmopt.argus.evaluation.detection import Detection, mean_average_precision
from vlmopt.argus.evaluation.questions import Answer, Question
from vlmopt.argus.examples import SLOT, Task

FindBoxes = Callable[[str], list[LabelledBox]]
"""Reads the boxes of an answer; raises BoxError where one is malformed."""

IOU = 0.5
_SEPARATORS = " \t\n;,."


@dataclass(frozen=True)
class Rate:
    """A mean over `count` questions, 0..1."""

    value: float
    count: int


@dataclass(frozen=True)
class Grounding:
    """How well single things are found.

    Attributes:
        accuracy: the part of the answers whose first box overlaps the thing with an IoU of at least 0.5.
        mean_iou: a question without a readable box counts as 0.
        parse_failures: answers whose text is not boxes, or holds none.
    """

    accuracy: Rate
    mean_iou: float
    parse_failures: int
    kinds: Mapping[str, Rate]


@dataclass(frozen=True)
class DenseCaptions:
    """How well all things of a picture are found and named.

    Attributes:
        mean_average_precision: see `detection.mean_average_precision`; a malformed answer has found nothing.
        by_threshold: average precision by the IoU that it asks for.
        count: pictures.
        parse_failures: answers in which a box is malformed.
    """

    mean_average_precision: float
    by_threshold: Mapping[float, float]
    count: int
    parse_failures: int


@dataclass(frozen=True)
class Scores:
    """The scores of one engine; None for a task that was not asked. `captions` counts equal ones."""

    vqa: Rate | None
    vqa_kinds: Mapping[str, Rate]
    captions: Rate | None
    grounding: Grounding | None
    dense_captions: DenseCaptions | None


def score(
    questions: Sequence[Question], answers: Sequence[Answer], find: FindBoxes, close: int | None
) -> Scores:
    """Scores the answers to `questions`, one each.

    Args:
        find: reads the boxes of an answer.
        close: the token id of `</box>`, where it is one; without it all boxes of an answer are as sure as the
            whole answer.
    """
    asked: dict[Task, list[tuple[Question, Answer]]] = defaultdict(list)
    for question, answer in zip(questions, answers, strict=True):
        asked[question.example.task].append((question, answer))
    vqa = [(question.example.kind, _vqa(question, answer)) for question, answer in asked["vqa"]]
    captions = [_same_caption(question, answer) for question, answer in asked["caption"]]
    return Scores(
        _mean(value for _, value in vqa),
        _by_kind(vqa),
        _mean(captions),
        _grounding(asked["grounding"], find) if asked["grounding"] else None,
        _dense_captions(asked["dense-caption"], find, close) if asked["dense-caption"] else None,
    )


def _vqa(question: Question, answer: Answer) -> float:
    return vqa_accuracy.accuracy(answer.text, question.example.references or [question.example.answer])


def _same_caption(question: Question, answer: Answer) -> float:
    """1 where the caption is one of those that are known, case, blanks and a last period aside."""
    known = question.example.references or (question.example.answer,)
    return float(_plain(answer.text) in map(_plain, known))


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).removesuffix(".").rstrip()


def _grounding(asked: Sequence[tuple[Question, Answer]], find: FindBoxes) -> Grounding:
    overlaps: list[tuple[str, float | None]] = []
    for question, answer in asked:
        found = _readable(answer, find)
        (thing,) = question.example.boxes
        overlaps.append((question.example.kind, found[0].box.iou(thing) if found else None))
    hits = [(kind, float((overlap or 0) >= IOU)) for kind, overlap in overlaps]
    accuracy = _mean(hit for _, hit in hits)
    assert accuracy is not None
    return Grounding(
        accuracy,
        sum(overlap or 0 for _, overlap in overlaps) / len(overlaps),
        sum(overlap is None for _, overlap in overlaps),
        _by_kind(hits),
    )


def _dense_captions(
    asked: Sequence[tuple[Question, Answer]], find: FindBoxes, close: int | None
) -> DenseCaptions:
    detections: list[Detection] = []
    failures = 0
    for number, (_, answer) in enumerate(asked):
        found = _readable(answer, find)
        if found is None:
            failures += 1
            continue
        sure = confidences(answer, len(found), close)
        detections += [
            Detection(number, one.label, one.box, confidence)
            for one, confidence in zip(found, sure, strict=True)
        ]
    truth = [things_of(question) for question, _ in asked]
    mean, by_threshold = mean_average_precision(detections, truth)
    return DenseCaptions(mean, by_threshold, len(asked), failures)


def things_of(question: Question) -> list[LabelledBox]:
    """The things of a dense caption, each with the words before its slot."""
    labels = question.example.answer.split(SLOT)
    return [
        LabelledBox(label.strip(_SEPARATORS), box)
        for label, box in zip(labels[:-1], question.example.boxes, strict=True)
    ]


def confidences(answer: Answer, boxes: int, close: int | None) -> list[float]:
    """How sure a model is of each of the `boxes` boxes of its answer: the log-probability of label and box.

    Rounded to a thousandth, since implementations differ beyond.
    """
    spans, span = [], 0.0
    for token, logprob in zip(answer.tokens, answer.logprobs, strict=True):
        span += logprob
        if token == close:
            spans.append(round(span, 3))
            span = 0.0
    return spans if len(spans) == boxes else [round(sum(answer.logprobs), 3)] * boxes


def _readable(answer: Answer, find: FindBoxes) -> list[LabelledBox] | None:
    try:
        return find(answer.text)
    except BoxError:
        return None


def _mean(values: Iterable[float]) -> Rate | None:
    known = list(values)
    return Rate(sum(known) / len(known), len(known)) if known else None


def _by_kind(values: Sequence[tuple[str, float]]) -> dict[str, Rate]:
    kinds: dict[str, list[float]] = defaultdict(list)
    for kind, value in values:
        kinds[kind].append(value)
    return {kind: Rate(sum(each) / len(each), len(each)) for kind, each in sorted(kinds.items())}
