"""What an evaluation asks about: held-out scenes, a folder in COCO's layout, or a benchmark's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlmopt.argus.annotations import read_json
from vlmopt.argus.coco import CocoFolder
from vlmopt.argus.errors import InputError
from vlmopt.argus.examples import Samples
from vlmopt.argus.refcoco import ReferringExpressions
from vlmopt.argus.scenes import Scenes
from vlmopt.argus.vqa import VqaFiles

SCENES = "scenes"


def open_data(
    names: Sequence[str], images: Path | None, *, seed: int = 0, count: int | None = None
) -> tuple[Samples, str]:
    """What `names` stand for, and what that is in words.

    | names | |
    | --- | --- |
    | `scenes` | `count` held-out scenes made from `seed` |
    | `DIR:SPLIT` | a folder in COCO's layout |
    | `QUESTIONS.json ANNOTATIONS.json` | VQA's two files, in any order; pictures in `images` |
    | `FILE:SPLIT` | a RefCOCO-style file; pictures in `images` |

    Raises:
        InputError: they are none of that, or `images` is missing.
        UsageError: a file cannot be read or is malformed.
    """
    if list(names) == [SCENES]:
        made = Scenes("heldout", seed=seed, count=1000 if count is None else count)
        return made, f"held-out scenes of seed {seed}"
    if len(names) == 2 and SCENES not in names:
        return _vqa([Path(name) for name in names], images), f"VQA's {names[0]} and {names[1]}"
    if len(names) != 1:
        raise InputError(
            f"--data {' --data '.join(names)}: give `scenes`, DIR:SPLIT, FILE:SPLIT, or the two files of VQA"
        )
    path, split = _split(names[0])
    if path.is_dir():
        if not split:
            raise InputError(f"--data {path}: name a split of this folder, as DIR:SPLIT")
        return CocoFolder(path, split), f"COCO's {names[0]}"
    return ReferringExpressions(path, split, _folder(images)), f"referring expressions of {names[0]}"


def _split(name: str) -> tuple[Path, str]:
    """PATH:SPLIT; the split is empty where there is none."""
    if Path(name).exists():
        return Path(name), ""
    path, colon, split = name.rpartition(":")
    return (Path(path), split) if colon else (Path(name), "")


def _folder(images: Path | None) -> Path:
    if images is None:
        raise InputError("the pictures of these files: give their folder with --images")
    if not images.is_dir():
        raise InputError(f"--images {images} is no folder")
    return images


def _vqa(paths: Sequence[Path], images: Path | None) -> Samples:
    read: dict[str, tuple[Path, Any]] = {}
    for path in paths:
        content = read_json(path)
        for part in ("questions", "annotations"):
            if isinstance(content, dict) and part in content:
                read[part] = path, content
    for part in ("questions", "annotations"):
        if part not in read:
            raise InputError(f"neither {paths[0]} nor {paths[1]} has VQA's {part!r}")
    return VqaFiles(*read["questions"], *read["annotations"], _folder(images))
