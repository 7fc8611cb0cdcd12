"""Boxes as bins: one token a coordinate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from vlmopt.argus.boxes.format import BoxFormat, numbered
from vlmopt.argus.boxes.geometry import Box, BoxError


class BinFormat(BoxFormat):
    """`<bin_124><bin_249><bin_499><bin_749>`: coordinate x is bin floor(x * (N - 1)).

    A bin is read as its middle, (b + 0.5) / (N - 1); the last bin holds x = 1 alone and is read as 1.
    Error bound: 0.5 / (N - 1) for each coordinate (0.00050 with 1,000 bins).

    Raises:
        BoxError: `bins` is not in 2..100000.
    """

    name: ClassVar[str] = "bin"

    def __init__(self, bins: int = 1000) -> None:
        if not 2 <= bins <= 100_000:
            raise BoxError(f"{bins} bins: a bin box has 2 to 100000")
        self.bins = bins

    @property
    def error(self) -> float:
        return 0.5 / (self.bins - 1)

    @property
    def tokens(self) -> Sequence[str]:
        return [f"<bin_{number}>" for number in range(self.bins)]

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "bins": self.bins}

    def _write(self, box: Box) -> str:
        return "".join(f"<bin_{math.floor(value * (self.bins - 1))}>" for value in box.corners)

    def _read(self, body: str) -> Box:
        numbers = numbered(body, "bin")
        if numbers is None or len(numbers) != 4 or max(numbers) >= self.bins:
            raise self._refuse(body, f"four tokens <bin_0> to <bin_{self.bins - 1}>")
        return Box(*(min((number + 0.5) / (self.bins - 1), 1.0) for number in numbers))
