"""The words of the scenes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Kind = Literal["shape", "digit", "word"]
Relation = Literal["left of", "right of", "above", "below"]

COLORS: Mapping[str, tuple[int, int, int]] = {
    "red": (214, 39, 40),
    "green": (44, 150, 44),
    "blue": (40, 80, 220),
    "orange": (255, 140, 20),
    "purple": (150, 60, 190),
    "black": (20, 20, 20),
}
BACKGROUNDS: Mapping[str, tuple[int, int, int]] = {
    "white": (255, 255, 255),
    "gray": (205, 205, 205),
    "yellow": (250, 240, 170),
}
NAMES: Mapping[Kind, tuple[str, ...]] = {
    "shape": ("circle", "square", "triangle", "diamond", "star", "cross"),
    "digit": tuple("0123456789"),
    "word": ("cat", "dog", "sun", "map", "key", "pen", "hat", "fly"),
}
# The extent of a thing, as a fraction of the scene's shorter side.
SIZES: Mapping[str, tuple[float, float]] = {"small": (0.17, 0.22), "large": (0.30, 0.38)}
RELATIONS: tuple[Relation, ...] = ("left of", "right of", "above", "below")
