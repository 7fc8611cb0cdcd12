"""Boxes as decimal fractions in ordinary text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from vlmopt.argus.boxes.format import BoxFormat
from vlmopt.argus.boxes.geometry import Box, BoxError

_NUMBER = re.compile(r"\d+(?: ?\. ?\d+)?")


class FloatFormat(BoxFormat):
    """`0.125,0.250,0.500,0.750`: each coordinate rounded to `digits` decimals.

    Error bound: 0.5 * 10 ** -digits for each coordinate (0.0005 with 3 digits).

    Raises:
        BoxError: `digits` is not in 1..9.
    """

    name: ClassVar[str] = "float"

    def __init__(self, digits: int = 3) -> None:
        if not 1 <= digits <= 9:
            raise BoxError(f"{digits} digits: a float box has 1 to 9")
        self.digits = digits

    @property
    def error(self) -> float:
        return 0.5 * 10.0**-self.digits

    @property
    def tokens(self) -> Sequence[str]:
        return ()

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "digits": self.digits}

    def _write(self, box: Box) -> str:
        return ",".join(f"{value:.{self.digits}f}" for value in box.corners)

    def _read(self, body: str) -> Box:
        parts = [part.strip() for part in body.split(",")]
        if len(parts) != 4 or not all(_NUMBER.fullmatch(part) for part in parts):
            raise self._refuse(body, "four decimal numbers with commas between")
        return Box(*(float(part.replace(" ", "")) for part in parts))
