"""Scenes: small drawn pictures whose every fact is known, and what can be said and asked about them.

    Scenes("train", seed=0, count=50_000)[17]    the same sample on every machine

Train and held-out scenes do not overlap: no held-out scene holds the same things as a scene of the other
split, wherever they stand.
"""

from vlmopt.argus.scenes.dataset import SPLITS, Scenes, Split
from vlmopt.argus.scenes.draw import draw
from vlmopt.argus.scenes.scene import Scene, Thing

__all__ = ["SPLITS", "Scene", "Scenes", "Split", "Thing", "draw"]
