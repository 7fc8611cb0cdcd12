"""What a model is taught and asked: a picture, and questions about it with their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from vlmopt.argus.boxes import CLOSE, OPEN, Box, BoxFormat

if TYPE_CHECKING:
    from PIL.Image import Image

Task = Literal["caption", "dense-caption", "vqa", "grounding"]
TASKS: tuple[Task, ...] = ("caption", "dense-caption", "vqa", "grounding")

SLOT = OPEN + CLOSE
DESCRIBE = "Describe the picture."
DESCRIBE_WITH_BOXES = "Describe the picture with boxes."


@dataclass(frozen=True)
class Example:
    """One question and its answer. In `answer` each of `boxes`, in order, has a slot, `<box></box>`.

    `kind` says more exactly what is asked, for tables: `color`, `count`, `relation`, ...
    `references` holds the answers of several people, where a benchmark has them.
    """

    task: Task
    kind: str
    question: str
    answer: str
    boxes: tuple[Box, ...] = ()
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.answer.count(SLOT) != len(self.boxes):
            raise ValueError(f"{len(self.boxes)} boxes for the slots of {self.answer!r}")

    def text(self, form: BoxFormat) -> str:
        """The answer as the model is to give it, its boxes written in `form`."""
        first, *rest = self.answer.split(SLOT)
        return first + "".join(form.encode(box) + after for box, after in zip(self.boxes, rest, strict=True))


@dataclass(frozen=True)
class Sample:
    """A picture and what is asked about it. `image()` makes the picture, RGB, anew at each call."""

    name: str
    image: Callable[[], Image]
    examples: tuple[Example, ...]


class Samples(Protocol):
    """Samples by number; the same number always gives the same sample."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Sample: ...


def with_article(words: str) -> str:
    """The words with their article: `a star`, `an orange star`."""
    return f"{'an' if words[:1].lower() in ('a', 'e', 'i', 'o', 'u') else 'a'} {words}"


def dense_caption(labelled: Sequence[tuple[str, Box]]) -> Example:
    """All things of a picture with their boxes: `large red star<box></box>; small circle<box></box>`."""
    answer = "; ".join(f"{label}{SLOT}" for label, _ in labelled)
    return Example("dense-caption", "things", DESCRIBE_WITH_BOXES, answer, tuple(box for _, box in labelled))


def grounding(kind: str, phrase: str, box: Box) -> Example:
    """Where the one thing is that `phrase` names, as in `the red star`."""
    return Example("grounding", kind, f"Where is {phrase}?", SLOT, (box,))


def caption(text: str) -> Example:
    """The whole picture in words."""
    return Example("caption", "caption", DESCRIBE, text)


def vqa(kind: str, question: str, answer: str, references: tuple[str, ...] = ()) -> Example:
    """A question with a short answer, or with the `references` of several people."""
    return Example("vqa", kind, question, answer, references=references)
