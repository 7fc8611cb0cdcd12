"""What a scene is, and how one is made by chance."""

from __future__ import annotations

import random
from dataclasses import dataclass

from vlmopt.argus.boxes import Box
from vlmopt.argus.scenes.draw import extent_of
from vlmopt.argus.scenes.language import BACKGROUNDS, COLORS, NAMES, SIZES, Kind, Relation

# How often each kind is drawn, and how often a scene has 1, 2, 3, 4 things.
_KINDS: tuple[Kind, ...] = ("shape", "digit", "word")
_KIND_WEIGHTS = (6, 2, 2)
_COUNT_WEIGHTS = (1, 2, 2, 2)
_GAP = 3
_TRIES = 40
# Of two things, one is left of (above) the other if their centres are this far apart, of the scene's width.
_CLEAR = 0.12


@dataclass(frozen=True)
class Thing:
    """One thing in a scene; `x` and `y` are its left and top pixel, `width` and `height` are in pixels."""

    kind: Kind
    name: str
    color: str
    size: str
    x: int
    y: int
    width: int
    height: int

    @property
    def looks(self) -> tuple[str, str, str]:
        """(name, color, size): what tells it from others wherever it stands."""
        return self.name, self.color, self.size


@dataclass(frozen=True)
class Scene:
    """A background and one to four things that do not touch, from left to right. Sizes in pixels."""

    width: int
    height: int
    background: str
    things: tuple[Thing, ...]

    @property
    def signature(self) -> str:
        """What the scene holds, regardless of where; two scenes with the same one hold the same things."""
        return "; ".join(sorted(" ".join(thing.looks) for thing in self.things))

    def box(self, thing: Thing) -> Box:
        """The box around a thing's pixels."""
        right, bottom = thing.x + thing.width, thing.y + thing.height
        return Box.from_pixels(thing.x, thing.y, right, bottom, width=self.width, height=self.height)

    def stands(self, one: Thing, relation: Relation, other: Thing) -> bool | None:
        """Whether `one` is left of (right of, ...) `other`; None where that is a matter of taste."""
        if relation in ("left of", "right of"):
            ahead = (2 * other.x + other.width - 2 * one.x - one.width) / 2 / self.width
        else:
            ahead = (2 * other.y + other.height - 2 * one.y - one.height) / 2 / self.height
        if abs(ahead) < _CLEAR:
            return None
        return (ahead > 0) == (relation in ("left of", "above"))


def make_scene(source: random.Random, width: int = 128, height: int = 128) -> Scene:
    """A scene by chance; the same state of `source` gives the same scene."""
    while True:
        count = source.choices((1, 2, 3, 4), _COUNT_WEIGHTS)[0]
        things: list[Thing] = []
        for _ in range(count):
            thing = _place(source, things, width, height)
            if thing is None:
                break
            things.append(thing)
        if len(things) == count:
            things.sort(key=lambda thing: (thing.x, thing.y))
            return Scene(width, height, source.choice(list(BACKGROUNDS)), tuple(things))


def _place(source: random.Random, others: list[Thing], width: int, height: int) -> Thing | None:
    """A thing that looks like none of `others` and touches none; None if there was no room for it."""
    kind = source.choices(_KINDS, _KIND_WEIGHTS)[0]
    name, color, size = source.choice(NAMES[kind]), source.choice(list(COLORS)), source.choice(list(SIZES))
    if (name, color, size) in {other.looks for other in others}:
        return None
    extent = source.uniform(*SIZES[size]) * min(width, height)
    wide, high = extent_of(kind, name, extent)
    if wide > width or high > height:
        return None
    for _ in range(_TRIES):
        x, y = source.randint(0, width - wide), source.randint(0, height - high)
        if all(
            x + wide + _GAP <= other.x
            or other.x + other.width + _GAP <= x
            or y + high + _GAP <= other.y
            or other.y + other.height + _GAP <= y
            for other in others
        ):
            return Thing(kind, name, color, size, x, y, wide, high)
    return None
