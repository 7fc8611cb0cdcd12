"""What every box format has in common: the brackets, and how a generated text is read."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vlmopt.argus.boxes.geometry import Box, BoxError

OPEN = "<box>"
CLOSE = "</box>"
_BRACKET = re.compile(f"{re.escape(OPEN)}|{re.escape(CLOSE)}")
_SHOWN = 80


@dataclass(frozen=True)
class LabelledBox:
    """A box and the words before it, without the separators (`;`, `,`, `.`) around them."""

    label: str
    box: Box


class BoxFormat(ABC):
    """Writes a box as text and reads it back.

    `encode` then `decode` moves no coordinate by more than `error` (and the last digit of a float), and keeps
    the order of a box's edges.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def error(self) -> float:
        """The most by which a coordinate of a box that was encoded and decoded is off, in 0..1."""

    @property
    @abstractmethod
    def tokens(self) -> Sequence[str]:
        """The tokens that a tokenizer must have for this format, besides `<box>` and `</box>`."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything needed to make this format again, as JSON; see `load_format`."""

    @abstractmethod
    def _write(self, box: Box) -> str:
        """What stands between the brackets."""

    @abstractmethod
    def _read(self, body: str) -> Box:
        """The inverse of `_write`; raises BoxError."""

    def encode(self, box: Box) -> str:
        """The box as text, brackets included."""
        return f"{OPEN}{self._write(box)}{CLOSE}"

    def decode(self, text: str) -> Box:
        """The one box that `text` is, brackets included and nothing else but white space.

        Raises:
            BoxError: the text is no box, more than a box, or a bad one.
        """
        found = self.find(text)
        if len(found) != 1 or found[0].label or not text.rstrip().endswith(CLOSE):
            raise BoxError(f"one {self.name} box was expected, not {_short(text)}")
        return found[0].box

    def parse(self, text: str) -> list[Box]:
        """All boxes of a generated text, in order; an empty list when it has none. Raises as `find` does."""
        return [found.box for found in self.find(text)]

    def find(self, text: str) -> list[LabelledBox]:
        """All boxes of a generated text with the words before each.

        Raises:
            BoxError: a bracket is not closed or not opened, or what stands between two is no box.
        """
        found: list[LabelledBox] = []
        label_from, body_from = 0, -1
        for bracket in _BRACKET.finditer(text):
            opens = bracket.group() == OPEN
            if opens == (body_from >= 0):
                raise BoxError(
                    f"{bracket.group()} at character {bracket.start()} has no partner: {_short(text)}"
                )
            if opens:
                body_from = bracket.end()
                label = text[label_from : bracket.start()].strip(" \t\n;,.")
                continue
            found.append(LabelledBox(label, self._read(text[body_from : bracket.start()])))
            label_from, body_from = bracket.end(), -1
        if body_from >= 0:
            raise BoxError(f"the last {OPEN} is not closed: {_short(text)}")
        return found

    def _refuse(self, body: str, wanted: str) -> BoxError:
        return BoxError(f"a {self.name} box is {wanted}, not {_short(body)}")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def numbered(body: str, stem: str) -> list[int] | None:
    """The numbers of a row of tokens `<STEM_n>`, white space allowed between; None if it is no such row."""
    if not re.fullmatch(rf"\s*(?:<{stem}_\d{{1,9}}>\s*)*", body):
        return None
    return [int(number) for number in re.findall(rf"<{stem}_(\d+)>", body)]
