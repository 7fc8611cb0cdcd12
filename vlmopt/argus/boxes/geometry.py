"""A box in a picture, and what can be wrong with one."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from vlmopt.errors import UsageError


class BoxError(UsageError):
    """Four numbers, or a text, that are no box."""


@dataclass(frozen=True)
class Box:
    """Left, top, right and bottom as fractions of the picture's width and height, each in 0..1.

    A box may have no area (x1 == x2), since a format may round a thin one to that.

    Raises:
        BoxError: a coordinate is not a number or outside 0..1, or a corner lies beyond its opposite.
    """

    x1: float
    y1: float
    x2: float
    y2: float

    def __post_init__(self) -> None:
        for name, value in zip(("x1", "y1", "x2", "y2"), self.corners, strict=True):
            if not math.isfinite(value):
                raise BoxError(f"a box whose {name} is {value}: it must be a number in 0..1")
            if not 0 <= value <= 1:
                raise BoxError(f"a box whose {name} is {value:g}, outside the picture: it must be in 0..1")
        if self.x2 < self.x1:
            raise BoxError(f"a box whose right edge {self.x2:g} is left of its left edge {self.x1:g}")
        if self.y2 < self.y1:
            raise BoxError(f"a box whose bottom edge {self.y2:g} is above its top edge {self.y1:g}")

    @classmethod
    def from_pixels(cls, x1: float, y1: float, x2: float, y2: float, *, width: int, height: int) -> Box:
        """The box with these edges, in pixels, of a picture of `width` x `height` pixels.

        Raises:
            BoxError: the edges lie outside the picture or in the wrong order, or the picture has no area.
        """
        if min(width, height) < 1:
            raise BoxError(f"a box in a picture of {width} x {height} pixels")
        return cls(x1 / width, y1 / height, x2 / width, y2 / height)

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """(x1, y1, x2, y2)."""
        x1, y1, x2, y2 = astuple(self)
        return x1, y1, x2, y2

    @property
    def area(self) -> float:
        """The fraction of the picture that it covers."""
        return (self.x2 - self.x1) * (self.y2 - self.y1)

    def to_pixels(self, width: int, height: int) -> tuple[float, float, float, float]:
        """(x1, y1, x2, y2) in pixels of a picture of that size."""
        return self.x1 * width, self.y1 * height, self.x2 * width, self.y2 * height

    def iou(self, other: Box) -> float:
        """Intersection over union, 0..1; two boxes of no area share nothing."""
        wide = min(self.x2, other.x2) - max(self.x1, other.x1)
        high = min(self.y2, other.y2) - max(self.y1, other.y1)
        shared = max(wide, 0.0) * max(high, 0.0)
        union = self.area + other.area - shared
        return shared / union if union > 0 else 0.0
