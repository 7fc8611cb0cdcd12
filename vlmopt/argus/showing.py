"""Asks one question about one picture, and draws the boxes of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlmopt.argus import checkpoint as checkpoints
from vlmopt.argus.annotations import open_picture
from vlmopt.argus.boxes import BoxError, LabelledBox
from vlmopt.argus.drawing import draw_boxes
from vlmopt.argus.errors import InputError
from vlmopt.argus.evaluation.in_transformers import Transformers
from vlmopt.argus.evaluation.questions import Question
from vlmopt.argus.examples import DESCRIBE_WITH_BOXES, vqa

if TYPE_CHECKING:
    from PIL.Image import Image

TOKENS = 256


@dataclass(frozen=True)
class Shown:
    """An answer, drawn.

    Attributes:
        boxes: none where one is malformed, which `malformed` then explains.
        out: where the picture with its boxes is.
    """

    question: str
    answer: str
    boxes: Sequence[LabelledBox]
    malformed: str | None
    out: Path

    def to_json(self) -> dict[str, Any]:
        """As JSON; a box is [x1, y1, x2, y2] in fractions of the picture."""
        return {
            "question": self.question,
            "answer": self.answer,
            "boxes": [{"label": one.label, "box": list(one.box.corners)} for one in self.boxes],
            "malformed": self.malformed,
            "out": str(self.out),
        }

    def summary(self) -> str:
        """The answer, and a line on what was drawn."""
        count = f"{len(self.boxes)} box{'' if len(self.boxes) == 1 else 'es'}"
        drawn = count if self.malformed is None else f"no boxes, since one is malformed ({self.malformed})"
        return f"{self.answer}\n{self.out}: the picture with {drawn}"


def show(
    pictures: Sequence[Path],
    *,
    question: str | None = None,
    checkpoint: Path | None = None,
    out: Path | None = None,
) -> Shown:
    """Answers with transformers, greedily, and writes the picture with its boxes as a PNG.

    Args:
        pictures: exactly one file.
        question: None asks to describe the picture with boxes.
        checkpoint: a folder; None for the one that comes with vlmopt.
        out: the file to write; None for `NAME-boxes.png` in the current folder.

    Raises:
        UsageError: there is not one picture, it or the checkpoint cannot be read, the question is too long,
            or `out` is the picture itself, not the name of a PNG, or cannot be written.
    """
    if len(pictures) != 1:
        raise InputError(f"one picture is shown at a time, not {len(pictures) or 'none'}: name one file")
    (path,) = pictures
    question = DESCRIBE_WITH_BOXES if question is None else question
    target = Path(f"{path.stem}-boxes.png") if out is None else out
    if target.suffix.lower() != ".png":
        raise InputError(f"--out {target}: the picture is written as a PNG, so name it .png")
    if target.resolve() == path.resolve():
        raise InputError(f"--out {target} is the picture itself: name another file")
    if not target.absolute().parent.is_dir():
        raise InputError(f"cannot write {target}: its folder does not exist")
    picture = open_picture(path)
    model, processor = checkpoints.load(checkpoint or checkpoints.shipped())
    asked = Question(str(path), partial(_same, picture), vqa("shown", question, ""))
    (answer,) = Transformers(model, processor, TOKENS).answer([asked])
    malformed, boxes = None, list[LabelledBox]()
    try:
        boxes = processor.find_boxes(answer.text)
    except BoxError as error:
        malformed = str(error)
    try:
        draw_boxes(picture, boxes).save(target, format="PNG")
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    return Shown(question, answer.text, boxes, malformed, target)


def _same(picture: Image) -> Image:
    return picture
