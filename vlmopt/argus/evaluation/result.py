"""What an evaluation found: scores by engine, and where engines differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from vlmopt.argus.evaluation.questions import Answer, Question
from vlmopt.argus.evaluation.scoring import Rate, Scores
from vlmopt.report.terminal import columns

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = 3


@dataclass(frozen=True)
class Difference:
    """A question to which two engines gave other tokens.

    Attributes:
        engine: the one that differs from the first engine.
        step: the first token that differs, counted from 0.
        expected, given: the answers of the first engine and of this one.
    """

    engine: str
    question: Question
    step: int
    expected: Answer
    given: Answer

    def to_json(self) -> dict[str, Any]:
        """As JSON; each answer as text, ids and the log-probability of the token at `step`."""
        return {
            "engine": self.engine,
            "picture": self.question.picture,
            "question": self.question.example.question,
            "step": self.step,
            "expected": self._answer(self.expected),
            "given": self._answer(self.given),
        }

    def summary(self) -> str:
        """Two lines: where, and both answers."""
        where = f"{self.engine}, {self.question.picture}: {self.question.example.question}"
        sides = [f"{answer.text!r}{_sure(answer, self.step)}" for answer in (self.expected, self.given)]
        return f"{where}\n  token {self.step + 1} differs: {sides[0]}, here {sides[1]}"

    def _answer(self, answer: Answer) -> dict[str, Any]:
        sure = answer.logprobs[self.step] if self.step < len(answer.logprobs) else None
        return {"text": answer.text, "tokens": list(answer.tokens), "logprob": sure}


@dataclass(frozen=True)
class Evaluated:
    """An evaluation of one checkpoint.

    Attributes:
        data: what was asked about, in words.
        pictures, questions: how many.
        scores, seconds: by the name of the engine, in the order in which they were asked.
        differences: of all engines against the first one.
    """

    checkpoint: Path
    data: str
    pictures: int
    questions: int
    scores: Mapping[str, Scores]
    seconds: Mapping[str, float]
    differences: Sequence[Difference]

    @property
    def agree(self) -> bool:
        """Whether all engines gave the same tokens to every question."""
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        """As JSON: all scores, and the first differences."""
        return {
            "checkpoint": str(self.checkpoint),
            "data": self.data,
            "pictures": self.pictures,
            "questions": self.questions,
            "engines": [
                {"name": name, "seconds": round(self.seconds[name], 1), **_scores_object(scores)}
                for name, scores in self.scores.items()
            ],
            "agree": self.agree,
            "differences": len(self.differences),
            "first_differences": [difference.to_json() for difference in self.differences[:SHOWN]],
        }

    def summary(self) -> RenderableType:
        """A title, a table with one column an engine, and whether they agree."""
        title = f"{self.checkpoint}: {self.questions} questions about {self.pictures} pictures, {self.data}"
        rows = {name: dict(_rows(scores)) for name, scores in self.scores.items()}
        labels = list(dict.fromkeys(label for each in rows.values() for label in each))
        table = columns(
            ("", *rows),
            [
                *((label, *(each.get(label, "") for each in rows.values())) for label in labels),
                ("seconds", *(f"{self.seconds[name]:.0f}" for name in rows)),
            ],
        )
        return Group(Text(title, style="bold"), table, *self._verdict())

    def _verdict(self) -> Iterator[Text]:
        if len(self.scores) == 1:
            return
        if self.agree:
            yield Text(
                f"all engines gave the same answers, token by token, to all {self.questions} questions",
                style="green",
            )
            return
        first, *others = self.scores
        for name in others:
            count = sum(difference.engine == name for difference in self.differences)
            if count:
                said = f"{name} answered otherwise than {first} to {count} of {self.questions} questions"
                yield Text(said, style="bold red")
        for difference in self.differences[:SHOWN]:
            yield Text(difference.summary())


def differences(questions: Sequence[Question], answers: Mapping[str, Sequence[Answer]]) -> list[Difference]:
    """Where the engines gave other tokens than the first of them, in the order of the questions."""
    first, *others = answers
    return [
        Difference(name, question, _step(expected.tokens, given.tokens), expected, given)
        for number, question in enumerate(questions)
        for name in others
        for expected, given in [(answers[first][number], answers[name][number])]
        if expected.tokens != given.tokens
    ]


def _step(one: Sequence[int], other: Sequence[int]) -> int:
    """The first place where two rows of tokens differ."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _sure(answer: Answer, step: int) -> str:
    return f" (log-probability {answer.logprobs[step]:.4f})" if step < len(answer.logprobs) else " (ended)"


def _rows(scores: Scores) -> Iterator[tuple[str, str]]:
    """(what, value) for the table."""
    if scores.vqa is not None:
        yield "VQA accuracy", _rate(scores.vqa)
        yield from ((f"  {kind}", _rate(rate)) for kind, rate in scores.vqa_kinds.items())
    if scores.captions is not None:
        yield "caption match", _rate(scores.captions)
    if scores.grounding is not None:
        yield "grounding accuracy at IoU 0.5", _rate(scores.grounding.accuracy)
        yield from ((f"  by {kind}", _rate(rate)) for kind, rate in scores.grounding.kinds.items())
        yield "  mean IoU", f"{scores.grounding.mean_iou:.3f}"
        yield "  parse failures", str(scores.grounding.parse_failures)
    if scores.dense_captions is not None:
        dense = scores.dense_captions
        yield "dense captions, mean average precision", _number(dense.mean_average_precision, dense.count)
        yield "  at IoU 0.5", f"{dense.by_threshold[0.5]:.3f}"
        yield "  parse failures", str(dense.parse_failures)


def _rate(rate: Rate) -> str:
    return f"{100 * rate.value:.1f}% of {rate.count}"


def _number(value: float, count: int) -> str:
    return f"{value:.3f} of {count}"


def _scores_object(scores: Scores) -> dict[str, Any]:
    """Scores as JSON: a rate is {"value", "count"}, a task that was not asked is null."""
    plain = asdict(scores)
    if scores.dense_captions is not None:
        by_threshold = scores.dense_captions.by_threshold
        plain["dense_captions"]["by_threshold"] = {str(key): value for key, value in by_threshold.items()}
    return plain
