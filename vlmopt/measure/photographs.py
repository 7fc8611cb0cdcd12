"""The pictures that are sent: views of the photographs that come with vlmopt, as JPEG files of any size."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Sequence

from PIL import Image

from vlmopt.errors import UsageError
from vlmopt.folders import golden_folder

_PHOTOS = ("china.jpg", "flower.jpg")
_QUALITY = 85
_VIEW = (400, 300)
_LARGEST = 20_000


def parse_size(text: str) -> tuple[int, int]:
    """Width and height of ``640x480``, or of ``224``, which is a square.

    Raises:
        UsageError: the text is no size.
    """
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip())
    if found is not None:
        width, height = int(found[1]), int(found[2] or found[1])
        if 0 < width <= _LARGEST and 0 < height <= _LARGEST:
            return width, height
    raise UsageError(f"{text!r} is no image size: write it like 640x480, with sides of 1 to {_LARGEST:,}")


def jpegs(size: tuple[int, int], count: int) -> Sequence[bytes]:
    """Different photographs of one size (width, height), encoded."""
    return [_jpeg(*size, number) for number in range(count)]


@functools.cache
def _jpeg(width: int, height: int, number: int) -> bytes:
    photo = _photograph(_PHOTOS[number % len(_PHOTOS)])
    left = 40 * number % (photo.width - _VIEW[0])
    view = photo.resize((width, height), box=(left, 0, left + _VIEW[0], _VIEW[1]))
    out = io.BytesIO()
    view.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


@functools.cache
def _photograph(name: str) -> Image.Image:
    with Image.open(golden_folder() / "images" / name) as image:
        return image.convert("RGB")
