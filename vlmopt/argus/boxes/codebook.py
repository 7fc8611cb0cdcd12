"""Boxes as codes: one token a corner, out of a codebook learnt from boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from vlmopt.argus.boxes.format import BoxFormat, numbered
from vlmopt.argus.boxes.geometry import Box, BoxError

Points = npt.NDArray[np.float64]
_DECIMALS = 4
_ROUNDS = 25


class CodebookFormat(BoxFormat):
    """`<code_17><code_803>`: the codes nearest to the top left and to the bottom right corner.

    The codebook is a vector quantiser of points: G x G codes on a grid, so that no point of the picture is
    far from a code, and the rest where corners of boxes are (k-means). Nearest is the code whose larger
    difference in x or y is least, so the error bound is the grid's: 0.5 / G for each coordinate (0.03125
    with G = 16); it is far smaller where boxes are common.

    `codes` is [n, 2], x and y in 0..1; its first G * G rows are the grid's.

    Raises:
        BoxError: the codes are not points of the picture, or do not begin with the grid.
    """

    name: ClassVar[str] = "codebook"

    def __init__(self, codes: Sequence[Sequence[float]] | Points, grid: int = 16) -> None:
        points = np.asarray(codes, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2 or not ((points >= 0) & (points <= 1)).all():
            raise BoxError(f"a codebook is a list of points (x, y) in 0..1, not an array of {points.shape}")
        if len(points) < grid * grid or not np.array_equal(points[: grid * grid], _grid(grid)):
            raise BoxError(
                f"a codebook of {len(points)} codes that does not begin with its {grid} x {grid} grid"
            )
        self.codes = points
        self.grid = grid

    @classmethod
    def learn(
        cls, boxes: Iterable[Box], *, size: int = 1024, grid: int = 16, seed: int = 0
    ) -> CodebookFormat:
        """A codebook of `size` codes learnt from the corners of `boxes`; the same for the same arguments.

        Raises:
            BoxError: there is no box, or `size` leaves no code beside the grid.
        """
        points = np.array([box.corners for box in boxes], dtype=np.float64).reshape(-1, 2)
        if not len(points):
            raise BoxError("a codebook cannot be learnt from no boxes")
        if size <= grid * grid:
            raise BoxError(f"a codebook of {size} codes has none left beside its {grid} x {grid} grid")
        learnt = _k_means(points, size - grid * grid, np.random.default_rng(seed))
        return cls(np.concatenate([_grid(grid), learnt.round(_DECIMALS)]), grid)

    @property
    def error(self) -> float:
        return 0.5 / self.grid

    @property
    def tokens(self) -> Sequence[str]:
        return [f"<code_{number}>" for number in range(len(self.codes))]

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "codes": self.codes.tolist(), "grid": self.grid}

    def _write(self, box: Box) -> str:
        corners = np.array(box.corners).reshape(2, 1, 2)
        nearest = np.abs(self.codes - corners).max(axis=2).argmin(axis=1)
        return "".join(f"<code_{number}>" for number in nearest)

    def _read(self, body: str) -> Box:
        numbers = numbered(body, "code")
        if numbers is None or len(numbers) != 2 or max(numbers) >= len(self.codes):
            raise self._refuse(body, f"two tokens <code_0> to <code_{len(self.codes) - 1}>")
        first, second = self.codes[numbers]
        if (first - second).max() > 2 * self.error:
            return Box(*first.tolist(), *second.tolist())
        # Corners nearer to each other than the error may swap; sorting them moves neither out of the bound.
        return Box(*np.minimum(first, second).tolist(), *np.maximum(first, second).tolist())


def _grid(side: int) -> Points:
    """The middles of `side` x `side` cells, row by row."""
    middles = (np.arange(side) + 0.5) / side
    return np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)


def _k_means(points: Points, count: int, random: np.random.Generator) -> Points:
    """`count` means of `points`, by Lloyd's algorithm from a random choice; a mean without points stays."""
    means = points[random.choice(len(points), count, replace=len(points) < count)]
    for _ in range(_ROUNDS):
        distance = (means**2).sum(axis=1) - 2 * points @ means.T
        nearest = distance.argmin(axis=1)
        sums = np.stack([np.bincount(nearest, points[:, axis], count) for axis in (0, 1)], axis=1)
        sizes = np.bincount(nearest, minlength=count)[:, None]
        means = np.where(sizes > 0, sums / np.maximum(sizes, 1), means)
    return means.clip(0, 1)
