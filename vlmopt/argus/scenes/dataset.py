"""Scenes by number, in two splits that share nothing."""

from __future__ import annotations

import hashlib
import random
from functools import partial
from typing import Literal, get_args

from vlmopt.argus.examples import Sample
from vlmopt.argus.scenes.draw import draw
from vlmopt.argus.scenes.scene import Scene, make_scene
from vlmopt.argus.scenes.talk import examples
from vlmopt.errors import UsageError

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = get_args(Split)
# One in so many sets of things is held out.
_HELD_OUT = 10


class Scenes:
    """`count` scenes of a split, each made when it is asked for; a number always gives the same one.

    Args:
        split: `train` or `heldout`.
        seed: another seed gives other scenes, of the same split.
        count: how many there are; a larger count begins with the same ones.
        size: (width, height) in pixels.

    Raises:
        UsageError: the split does not exist, or there are no scenes or no room in them.
    """

    def __init__(
        self, split: Split, *, seed: int = 0, count: int = 1000, size: tuple[int, int] = (128, 128)
    ) -> None:
        if split not in SPLITS:
            raise UsageError(f"scenes have no split {split!r}: choose {' or '.join(SPLITS)}")
        if count < 1 or min(size) < 48:
            raise UsageError(
                f"{count} scenes of {size[0]} x {size[1]} pixels: at least 1 of at least 48 x 48"
            )
        self.split = split
        self.seed = seed
        self.count = count
        self.size = size

    def __len__(self) -> int:
        return self.count

    def scene(self, index: int) -> Scene:
        """The scene with this number; raises IndexError outside 0..count - 1."""
        return self._make(index)[0]

    def __getitem__(self, index: int) -> Sample:
        scene, source = self._make(index)
        return Sample(f"{self.split}/{self.seed}/{index}", partial(draw, scene), examples(scene, source))

    def _make(self, index: int) -> tuple[Scene, random.Random]:
        if not 0 <= index < self.count:
            raise IndexError(f"scene {index} of {self.count}")
        source = random.Random(f"{self.split}/{self.seed}/{index}")
        while True:
            scene = make_scene(source, *self.size)
            if split_of(scene) == self.split:
                return scene, source


def split_of(scene: Scene) -> Split:
    """The split that a scene belongs to, by what it holds."""
    digest = hashlib.sha256(scene.signature.encode()).digest()
    return "heldout" if digest[0] % _HELD_OUT == 0 else "train"
