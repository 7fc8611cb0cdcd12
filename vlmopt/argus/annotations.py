"""What the readers of public formats share: annotation files, pictures and boxes in pixels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from vlmopt.argus.boxes import Box
from vlmopt.errors import UsageError
from vlmopt.mistakes import first_mistake

if TYPE_CHECKING:
    from PIL.Image import Image

_T = TypeVar("_T")


class Record(BaseModel):
    """An object of an annotation file; what a reader does not need is ignored."""

    model_config = ConfigDict(extra="ignore")


class Picture(Record):
    """A picture as COCO's format names it; sizes in pixels."""

    id: int
    file_name: str
    width: Annotated[int, Field(ge=1)]
    height: Annotated[int, Field(ge=1)]


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        UsageError: there is no such file, or it is not JSON.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error


def checked(value: Any, kind: type[_T], path: Path) -> _T:
    """`value`, read from `path`, as `kind`. Raises UsageError with the place where it is something else."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        place, wrong = first_mistake(error)
        raise UsageError(f"{path}: {place}: {wrong}; docs/argus.md says what is expected in it") from error


def find_picture(names: Sequence[str], folders: Sequence[Path]) -> Path:
    """The first of `names` in the first of `folders` that has one. Raises UsageError when none has."""
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise UsageError(
        f"the picture {names[0]} is not in {' or '.join(map(str, folders))}; get it, or name its folder"
    )


def open_picture(path: Path, size: tuple[int, int] | None = None) -> Image:
    """The picture in a file, in RGB.

    Args:
        size: the (width, height) in pixels that it is said to have.

    Raises:
        UsageError: there is no such file, it is no picture or cut short, or it has another size.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            opened = image.convert("RGB")
    except FileNotFoundError as error:
        raise UsageError(f"the picture {path} does not exist: name another file") from error
    except Exception as error:  # each of Pillow's readers raises its own
        raise UsageError(f"{path} cannot be read as a picture: {error}; name or get another file") from error
    if size is not None and opened.size != size:
        stated = f"{size[0]} x {size[1]}"
        raise UsageError(f"{path} is {opened.width} x {opened.height} pixels, its annotations say {stated}")
    return opened


def clipped(bbox: tuple[float, float, float, float], width: int, height: int) -> Box | None:
    """The part of [x, y, width, height] in pixels that lies in the picture; None if there is none."""
    x, y, wide, high = bbox
    x1, x2 = (min(max(edge, 0.0), width) for edge in (x, x + wide))
    y1, y2 = (min(max(edge, 0.0), height) for edge in (y, y + high))
    if not (x1 < x2 and y1 < y2):
        return None
    return Box.from_pixels(x1, y1, x2, y2, width=width, height=height)
