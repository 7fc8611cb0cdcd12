"""Images for tests: each is a small description that says exactly how to make it again.

`random_image` draws one from a `random.Random`, huge sizes rationed; `image_cases` is the same space as a
hypothesis strategy, which shrinks.
"""

import functools
import io
import random
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from hypothesis import strategies as st
from PIL import Image

from tests.support.models import ASSETS

Mode = Literal["RGB", "L", "LA", "P", "RGBA", "CMYK", "I;16", "1"]
Content = Literal["noise", "waves", "photo", "mid-grey", "black", "white", "edge"]
Form = Literal["pil", "hwc", "chw", "float", "JPEG", "PNG", "WEBP"]

EXIF_ORIENTATION = 0x0112
# Where processors change their mind: tile and crop sizes, patch multiples, and one pixel beside each.
ROUND_SIDES = [28, 56, 112, 224, 336, 364, 384, 448, 512, 672, 896, 1024, 1344, 2048]
EXTREME_SIZES = [(20000, 10), (10, 20000), (1, 700), (700, 1), (3, 900), (1500, 3), (1, 1), (2, 1), (1999, 9)]
ARRAYS: tuple[Form, ...] = ("hwc", "chw", "float")
FORMS_OF: dict[Mode, tuple[Form, ...]] = {
    "RGB": ("pil", "hwc", "chw", "float", "JPEG", "PNG", "WEBP"),
    "L": ("pil", "JPEG", "PNG"),
    "LA": ("pil", "PNG"),
    "P": ("pil", "PNG"),
    "RGBA": ("pil", "hwc", "PNG", "WEBP"),
    "CMYK": ("pil", "JPEG"),
    "I;16": ("pil", "PNG"),
    "1": ("pil", "PNG"),
}


@functools.cache
def photograph(name: str) -> Image.Image:
    """A photograph of ``assets/photos``."""
    with Image.open(ASSETS / "photos" / name) as image:
        return image.convert("RGB")


@dataclass(frozen=True)
class ImageCase:
    """One image. `form` is how it reaches vLLM: a PIL image, an array, or an encoded file.

    `orientation` is the EXIF tag (1 is upright); arrays and WebP files carry none.
    """

    width: int
    height: int
    mode: Mode = "RGB"
    content: Content = "waves"
    form: Form = "pil"
    orientation: int = 1
    seed: int = 0

    def pixels(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """uint8, height x width x 4 channels; which of them count is decided by the mode."""
        shape = (self.height, self.width, 4)
        if self.content == "noise":
            return np.random.default_rng(self.seed).integers(0, 256, shape, np.uint8)
        if self.content == "waves":
            x, y = np.arange(self.width, dtype=np.float32), np.arange(self.height, dtype=np.float32)[:, None]
            phase = np.float32(self.seed % 97)
            bands = [np.sin(x / 37 + y / 91 + phase), np.cos(x / (53 + phase)) + 0 * y, np.sin(y / 7) + 0 * x]
            return np.stack([*(127 + 100 * band for band in bands), 0 * bands[0] + 200], -1).astype(np.uint8)
        if self.content == "photo":
            left, top = self.seed % 200, self.seed % 90
            view = photograph("china.jpg").resize(
                (self.width, self.height), box=(left, top, left + 400, top + 300)
            )
            return np.asarray(view.convert("RGBA"))
        out = np.full(shape, {"mid-grey": 128, "black": 0, "white": 255, "edge": 0}[self.content], np.uint8)
        if self.content == "edge":
            out[:, self.width // 2 :] = 255
        return out

    def picture(self) -> Image.Image:
        """The image as PIL sees it, with its orientation in its EXIF data."""
        pixels = self.pixels()
        if self.mode in ("RGBA", "CMYK"):
            image = Image.frombytes(self.mode, (self.width, self.height), pixels.tobytes())
        elif self.mode == "I;16":
            wide = pixels[..., 0].astype("<u2") * 257
            image = Image.frombytes("I;16", (self.width, self.height), wide.tobytes())
        elif self.mode == "LA":
            image = Image.frombytes("LA", (self.width, self.height), pixels[..., 2:].tobytes())
        else:
            image = Image.fromarray(np.ascontiguousarray(pixels[..., :3]))
            if self.mode == "P":
                image = image.quantize(32 + self.seed % 64, method=Image.Quantize.FASTOCTREE)
                if self.seed % 3 == 0:
                    image.info["transparency"] = self.seed % 16
            elif self.mode != "RGB":
                image = image.convert(self.mode)
        if self.orientation != 1:
            exif = image.getexif()
            exif[EXIF_ORIENTATION] = self.orientation
            image.info["exif"] = exif.tobytes()
        return image

    def build(self) -> Any:
        """What is handed to vLLM: ``bytes`` of a file, a PIL image, a numpy array or a torch tensor."""
        if self.form in ARRAYS:
            pixels = self.pixels()[..., : len(self.mode)]
            if self.form == "hwc":
                return np.ascontiguousarray(pixels)
            if self.form == "chw":
                return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
            return (pixels / np.float32(255)).astype(np.float32)
        picture = self.picture()
        if self.form == "pil":
            return picture
        file = io.BytesIO()
        extra = {"exif": picture.info["exif"]} if "exif" in picture.info else {}
        if self.form == "WEBP":
            picture.save(file, "WEBP", lossless=self.seed % 2 == 0, method=0, **extra)
        elif self.form == "PNG":
            picture.save(file, "PNG", compress_level=1, **extra)
        else:
            subsampling = {} if self.mode == "L" else {"subsampling": self.seed % 3}
            picture.save(file, "JPEG", quality=70 + self.seed % 30, **subsampling, **extra)
        return file.getvalue()


def random_image(rng: random.Random, *, huge: bool = False) -> ImageCase:
    """Draws an image. Most are small; with `huge` one side or both are between 1100 and 4096."""
    if huge:
        width, height = rng.randint(1100, 4096), rng.choice([rng.randint(1100, 4096), rng.randint(100, 1100)])
        if rng.random() < 0.5:
            width, height = height, width
        return ImageCase(width, height, "RGB", "waves", rng.choice(["pil", "JPEG"]), seed=rng.randrange(1000))
    width, height = _random_size(rng)
    mode = rng.choice(get_args(Mode) + ("RGB",) * 7)
    form = rng.choice(FORMS_OF[mode])
    if form in ARRAYS and rng.random() < 0.6:
        form = rng.choice(["pil", "JPEG", "PNG"] if mode == "RGB" else ["pil", "PNG"])
    if form == "WEBP" and max(width, height) > 16000:
        form = "PNG"
    oriented = form in ("pil", "JPEG", "PNG") and rng.random() < 0.3
    return ImageCase(
        width,
        height,
        mode,
        rng.choice([*get_args(Content), "noise", "waves", "photo"]),
        form,
        rng.randint(2, 8) if oriented else 1,
        rng.randrange(1000),
    )


def _random_size(rng: random.Random) -> tuple[int, int]:
    kind = rng.random()
    if kind < 0.2:
        return rng.randint(1, 40), rng.randint(1, 40)
    if kind < 0.6:
        return rng.randint(1, 640), rng.randint(1, 640)
    if kind < 0.85:
        width, height = (rng.choice(ROUND_SIDES) + rng.choice([0, 0, 0, -1, 1]) for _ in range(2))
        return (width, width) if rng.random() < 0.3 else (width, min(height, 1024))
    if kind < 0.93:
        return rng.choice(EXTREME_SIZES)
    return rng.randint(640, 1100), rng.randint(300, 1100)


@st.composite
def image_cases(draw: st.DrawFn, max_side: int = 600) -> ImageCase:
    """Images up to `max_side` on a side, of every mode, content, form, orientation; shrinks to one pixel."""
    mode: Mode = draw(st.sampled_from(get_args(Mode)))
    form: Form = draw(st.sampled_from(FORMS_OF[mode]))
    side = st.integers(1, max_side) | st.sampled_from([s for s in ROUND_SIDES if s <= max_side] or [1])
    return ImageCase(
        draw(side),
        draw(side),
        mode,
        draw(st.sampled_from(get_args(Content))),
        form,
        draw(st.integers(1, 8)) if form in ("pil", "JPEG", "PNG") else 1,
        draw(st.integers(0, 999)),
    )
