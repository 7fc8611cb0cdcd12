"""The photographs of ``golden_outputs/images``."""

import functools
import io

from PIL import Image

from vlmopt.folders import golden_folder

PHOTOS = golden_folder() / "images"


@functools.cache
def photograph(name: str) -> Image.Image:
    """A photograph, RGB, 640x427."""
    with Image.open(PHOTOS / name) as image:
        return image.convert("RGB")


def photo_jpeg(width: int, height: int) -> bytes:
    """A view of a photograph as a JPEG file of `width` x `height` pixels."""
    out = io.BytesIO()
    photograph("china.jpg").resize((width, height), box=(0, 0, 400, 300)).save(out, "JPEG", quality=85)
    return out.getvalue()
