"""Draws scenes with Pillow: shapes as polygons, digits and words in Pillow's own font."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from vlmopt.argus.scenes.language import BACKGROUNDS, COLORS, Kind

if TYPE_CHECKING:
    from vlmopt.argus.scenes.scene import Scene, Thing

# A word is wider than a shape of the same size is, so that its letters can be read.
_WORD_STRETCH = 1.6
_CROSS_ARM = 1 / 3
_STAR_INNER = 0.42


def draw(scene: Scene) -> Image.Image:
    """The scene as an RGB picture of its size."""
    picture = Image.new("RGB", (scene.width, scene.height), BACKGROUNDS[scene.background])
    pen = ImageDraw.Draw(picture)
    for thing in scene.things:
        if thing.kind == "shape":
            _draw_shape(pen, thing)
        else:
            mask = _glyphs(thing.name, thing.width, thing.height)
            picture.paste(COLORS[thing.color], (thing.x, thing.y), mask)
    return picture


def extent_of(kind: Kind, name: str, extent: float) -> tuple[int, int]:
    """(width, height) in pixels of a thing whose size is `extent` pixels.

    That is the side of a shape, the height of a digit and, stretched, the width of a word.
    """
    if kind == "shape":
        return round(extent), round(extent)
    left, top, right, bottom = _ink(name)
    scale = extent / (bottom - top) if kind == "digit" else _WORD_STRETCH * extent / (right - left)
    return max(round((right - left) * scale), 1), max(round((bottom - top) * scale), 1)


_MASTER_POINTS = 96


@lru_cache(maxsize=64)
def _master(text: str) -> Image.Image:
    """The text in white on black, large, cut to its ink."""
    font = ImageFont.load_default(_MASTER_POINTS)
    page = Image.new("L", (_MASTER_POINTS * (len(text) + 1), _MASTER_POINTS * 2))
    ImageDraw.Draw(page).text((_MASTER_POINTS // 4, _MASTER_POINTS // 4), text, 255, font=font)
    return page.crop(page.getbbox())


def _ink(text: str) -> tuple[int, int, int, int]:
    return 0, 0, *_master(text).size


def _glyphs(text: str, width: int, height: int) -> Image.Image:
    """The text as a mask of exactly that size."""
    return _master(text).resize((width, height), Image.Resampling.BOX)


def _draw_shape(pen: ImageDraw.ImageDraw, thing: Thing) -> None:
    color = COLORS[thing.color]
    # Pillow's edges are inclusive: a thing of n pixels ends at n - 1.
    right, bottom = thing.x + thing.width - 1, thing.y + thing.height - 1
    if thing.name == "circle":
        pen.ellipse((thing.x, thing.y, right, bottom), fill=color)
    elif thing.name == "square":
        pen.rectangle((thing.x, thing.y, right, bottom), fill=color)
    else:
        pen.polygon(
            [
                (thing.x + x * (right - thing.x), thing.y + y * (bottom - thing.y))
                for x, y in _outline(thing.name)
            ],
            fill=color,
        )


@lru_cache(maxsize=8)
def _outline(name: str) -> Sequence[tuple[float, float]]:
    """The corners of a shape, stretched so that they touch all four sides of the unit square."""
    if name == "triangle":
        return ((0.5, 0), (1, 1), (0, 1))
    if name == "diamond":
        return ((0.5, 0), (1, 0.5), (0.5, 1), (0, 0.5))
    if name == "cross":
        near, far = (1 - _CROSS_ARM) / 2, (1 + _CROSS_ARM) / 2
        quarter = [(near, 0.0), (far, 0.0), (far, near)]
        corners = []
        for _ in range(4):
            corners += quarter
            quarter = [(1 - y, x) for x, y in quarter]
        return tuple(corners)
    if name != "star":
        raise ValueError(f"no shape is named {name!r}")
    turns = [(1 if step % 2 == 0 else _STAR_INNER, math.pi * step / 5) for step in range(10)]
    points = [(radius * math.sin(angle), -radius * math.cos(angle)) for radius, angle in turns]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return tuple(
        ((x - min(xs)) / (max(xs) - min(xs)), (y - min(ys)) / (max(ys) - min(ys))) for x, y in points
    )
