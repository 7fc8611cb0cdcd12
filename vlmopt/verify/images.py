"""The images of the request space: each is a small description that says exactly how to make it again."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from vlmopt.engine.protocol import TensorImage

Mode = Literal["RGB", "L", "LA", "P", "RGBA", "CMYK", "I;16", "1"]
Content = Literal["black", "mid-grey", "white", "edge", "waves", "noise"]
Form = Literal["pil", "JPEG", "PNG", "WEBP", "GIF", "hwc", "chw", "float"]
Damage = Literal["none", "truncated", "corrupt", "no image"]

T = TypeVar("T")

EXIF_ORIENTATION = 0x0112
# Where processors change their mind: tile and crop sizes, patch multiples and half way between two, and
# one pixel beside each.
ROUND_SIDES = [28, 56, 70, 112, 224, 336, 364, 384, 448, 512, 672, 896, 1024, 1344, 2048]
EXTREME_SIZES = [(1, 1), (2, 1), (1, 700), (700, 1), (3, 900), (1500, 3), (1999, 9), (20000, 10), (10, 20000)]
# More pixels than any budget that a processor keeps to.
HUGE_SIZE = (20000, 650)
ARRAYS: tuple[Form, ...] = ("hwc", "chw", "float")
FORMS_OF: dict[Mode, tuple[Form, ...]] = {
    "RGB": ("pil", "JPEG", "PNG", "WEBP", "JPEG", "PNG", "hwc", "chw", "float"),
    "L": ("pil", "JPEG", "PNG"),
    "LA": ("pil", "PNG"),
    "P": ("pil", "PNG", "GIF"),
    "RGBA": ("pil", "PNG", "WEBP", "hwc"),
    "CMYK": ("pil", "JPEG"),
    "I;16": ("pil", "PNG"),
    "1": ("pil", "PNG"),
}
ANIMATED: tuple[Form, ...] = ("GIF", "PNG", "WEBP")
WEBP_SIDE = 16383


@dataclass(frozen=True)
class ImageCase:
    """One image. `form` is how it reaches vLLM: a PIL image, an array, or an encoded file.

    `orientation` is the EXIF tag (1 is upright), which PIL images, JPEG and PNG files carry. With `frames`
    above 1 the file is an animation. `damage` is what happened to the file on its way.
    """

    width: int
    height: int
    mode: Mode = "RGB"
    content: Content = "waves"
    form: Form = "pil"
    orientation: int = 1
    seed: int = 0
    frames: int = 1
    damage: Damage = "none"

    def __str__(self) -> str:
        words = [f"{self.width}x{self.height}", self.mode, self.content, self.form]
        words += [f"EXIF orientation {self.orientation}"] if self.orientation != 1 else []
        words += [f"{self.frames} frames"] if self.frames != 1 else []
        words += [self.damage] if self.damage != "none" else []
        return ", ".join([*words, f"seed {self.seed}"])

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
        """What is handed to vLLM: ``bytes`` of a file, a PIL image, a numpy array or a `TensorImage`."""
        if self.form in ARRAYS:
            pixels = self.pixels()[..., : len(self.mode)]
            if self.form == "hwc":
                return np.ascontiguousarray(pixels)
            if self.form == "chw":
                return TensorImage(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
            return (pixels / np.float32(255)).astype(np.float32)
        return self.picture() if self.form == "pil" else self.file()

    def file(self) -> bytes:
        """The encoded file; a PIL image or an array as PNG."""
        picture = self.picture()
        file = io.BytesIO()
        extra: dict[str, Any] = {"exif": picture.info["exif"]} if "exif" in picture.info else {}
        if self.frames > 1:
            more = [picture.rotate(180 / (n + 1)) for n in range(1, self.frames)]
            extra |= {"save_all": True, "append_images": more, "duration": 100}
        if self.form == "WEBP":
            picture.save(file, "WEBP", lossless=self.seed % 2 == 0, method=0, **extra)
        elif self.form == "GIF":
            picture.save(file, "GIF", **extra)
        elif self.form == "JPEG":
            subsampling = {} if self.mode == "L" else {"subsampling": self.seed % 3}
            picture.save(file, "JPEG", quality=70 + self.seed % 30, **subsampling, **extra)
        else:
            picture.save(file, "PNG", compress_level=1, **extra)
        return self._damaged(file.getvalue())

    def _damaged(self, data: bytes) -> bytes:
        if self.damage == "truncated":
            return data[: max(1, len(data) * (1 + self.seed % 9) // 10)]
        if self.damage == "corrupt":
            half = len(data) // 2
            return data[:half] + bytes(16) + data[half + 16 :]
        if self.damage == "no image":
            return b"" if self.seed % 2 else b"this is no image"
        return data


def mostly(usual: T, *others: T, of: int) -> st.SearchStrategy[T]:
    """`usual`, and each of the others once in `of` draws. Shrinks to `usual`.

    hypothesis likes the ends of a sequence, so the rare ones stand in its middle.
    """
    half = (of - len(others)) // 2
    return st.sampled_from((usual,) * half + others + (usual,) * half)


@st.composite
def sizes(draw: st.DrawFn, large: bool = True) -> tuple[int, int]:
    """Width and height in pixels, from 1x1; with `large` also beyond the largest grid of tiles, rarely."""
    kinds = ["small"] * 5 + ["any"] * 4 + ["extreme"] * 2 + ["large"] * large + ["round"] * 6 + ["any"] * 4
    kind = draw(st.sampled_from(kinds))
    if kind == "small":
        return draw(st.integers(1, 40)), draw(st.integers(1, 40))
    if kind == "any":
        return draw(st.integers(1, 640)), draw(st.integers(1, 640))
    if kind == "round":
        width, height = (
            draw(st.sampled_from(ROUND_SIDES)) + draw(st.sampled_from([0, 0, 1, -1])) for _ in range(2)
        )
        return (width, width) if draw(st.booleans()) else (width, min(height, 1024))
    if kind == "extreme":
        return draw(st.sampled_from(EXTREME_SIZES))
    if draw(mostly(False, True, of=3)):
        return HUGE_SIZE
    width = draw(st.integers(640, 4500) | st.integers(4097, 6000))
    height = draw(st.integers(300, 1600))
    return (height, width) if draw(st.booleans()) else (width, height)


@st.composite
def image_cases(draw: st.DrawFn, *, files: bool = False, large: bool = True) -> ImageCase:
    """Images of every size, mode, content, form and orientation; shrinks to one black pixel.

    With `files` only encoded files, which is what a server receives.
    """
    width, height = draw(sizes(large))
    big = width * height > 1_500_000
    mode = draw(st.sampled_from(("RGB",) * 4 + (("RGB",) if big else get_args(Mode))))
    forms = FORMS_OF[mode]
    if files:
        forms = tuple(form for form in forms if form not in ARRAYS and form != "pil")
    if max(width, height) > WEBP_SIDE:
        forms = tuple(form for form in forms if form != "WEBP")
    if big:
        forms = ("JPEG",) if files else ("pil", "JPEG")
    form = draw(st.sampled_from(forms))
    content = draw(st.sampled_from(("waves",) if big else (*get_args(Content), "noise", "waves", "noise")))
    encoded = form not in ARRAYS and form != "pil"
    moves = form in ANIMATED and not big and min(width, height) > 1
    return ImageCase(
        width,
        height,
        mode,
        content,
        form,
        draw(mostly(1, *range(2, 9), of=16)) if form in ("pil", "JPEG", "PNG") else 1,
        draw(st.integers(0, 999)),
        draw(mostly(1, 2, 3, of=6)) if moves else 1,
        draw(mostly(*get_args(Damage), of=24)) if encoded else "none",
    )
