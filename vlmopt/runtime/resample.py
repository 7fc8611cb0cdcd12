"""Integer image resampling with the very bytes of Pillow and of torchvision, in torch ops on any device.

Both libraries resample uint8 images in fixed point, one axis after the other, and round to uint8 in
between. A pass sums `pixel * weight` in int32 from an accumulator of `1 << (shift - 1)`, shifts right by
`shift` and clamps to 0..255. An axis whose size stays the same is left alone. The weights come from the
same double arithmetic, and differ in how they become integers:

- ``pillow`` (src/libImaging/Resample.c, precompute_coeffs and normalize_coeffs_8bpc): int32 weights, the
  shift is 22. Filters: box, bilinear, hamming, bicubic, lanczos. The horizontal pass comes first; from
  Pillow 13 on the vertical one does where the height shrinks by more than twice as many pixels as the
  width (ImagingResampleInner). Bands are independent here: the premultiplication that `PIL.Image.resize`
  adds for RGBA and LA is not part of it.
- ``torchvision`` (0.28 on torch 2.13: `torchvision.transforms.v2.functional.resize(..., antialias=True)`
  of a uint8 tensor on the CPU; ATen's UpSampleKernel.cpp, _compute_index_ranges_int16_weights): int16
  weights; the shift is the largest, at most 22, at which the greatest weight still fits. Filters:
  bilinear, bicubic, lanczos. The horizontal pass always comes first.

What was measured of torchvision's side, for 1 to 4 channels on x86-64 with AVX2 or AVX-512:

- bilinear, bicubic and lanczos all run ATen's uint8 antialias kernels; nothing goes through float.
- The result is the same for contiguous and channels-last input, for one image and a batch, and for any
  number of threads: channels, images and rows are independent.
- One-pixel inputs, an unchanged axis and extreme aspect ratios follow the same formula.
- An output of exactly 1x1 from a contiguous 3-channel tensor raises an internal error in torch 2.13; the
  channels-last layout gives the formula's result, so `resize_native` hands the tensor over in that
  layout.
- With 5 or more channels another kernel runs, and there outputs one pixel wide depend on the memory
  layout. Such images are refused for this library.

Without AVX2 (ATEN_CPU_CAPABILITY=default shows it) that other kernel runs for every channel count, and
bilinear goes through float. `verified` tells whether this process's library gives the formula's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import PIL
import torch
from torch import Tensor

Library = Literal["pillow", "torchvision"]
Filter = Literal["box", "bilinear", "hamming", "bicubic", "lanczos"]

FILTERS: dict[Library, tuple[Filter, ...]] = {
    "pillow": ("box", "bilinear", "hamming", "bicubic", "lanczos"),
    "torchvision": ("bilinear", "bicubic", "lanczos"),
}

# Half the width, in input pixels at scale 1, of each filter.
_SUPPORT: dict[Filter, float] = {"box": 0.5, "bilinear": 1.0, "hamming": 1.0, "bicubic": 2.0, "lanczos": 3.0}

_PILLOW_MAJOR = int(PIL.__version__.split(".")[0])
_PILLOW_NUMBERS: dict[int, Filter] = {1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}

# Elements of an int32 product that one step of a pass may hold; bounds memory, keeps kernel launches few.
_STEP_ELEMENTS = 1 << 24


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Fixed-point weights of one axis: output i is sum(input[first[i] + k] * weight[i, k]) over k < taps.

    first: int32 [n_out], 0 <= first[i] and first[i] + taps <= n_in, so every tap is a pixel of the input.
    count: int32 [n_out], taps of row i up to and including its last weight that is not 0; at least 1.
    weight: int32 [n_out, taps]; weights beyond count[i] are 0. All arrays are read-only.
    shift: bits of fraction in the weights.
    """

    first: npt.NDArray[np.int32]
    count: npt.NDArray[np.int32]
    weight: npt.NDArray[np.int32]
    shift: int

    @property
    def taps(self) -> int:
        return int(self.weight.shape[1])


def filter_name(resample: int | str) -> Filter:
    """Name of a resampling filter given by Pillow's number (`PIL.Image.Resampling`) or by name in any case.

    Raises ValueError for a filter without antialiasing (nearest) or an unknown one.
    """
    if isinstance(resample, str):
        name = resample.lower()
    else:
        name = _PILLOW_NUMBERS.get(int(resample), str(resample))
    for known in _SUPPORT:
        if name == known:
            return known
    raise ValueError(f"no resampling filter {resample!r}; known: {', '.join(_SUPPORT)}")


def _kernel(x: npt.NDArray[np.float64], name: Filter) -> npt.NDArray[np.float64]:
    """The filter's value at x, in the libraries' order of double operations (both round alike)."""
    if name == "box":
        return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)
    x = np.abs(x)
    if name == "bilinear":
        return np.where(x < 1.0, 1.0 - x, 0.0)
    if name == "bicubic":
        a = -0.5
        inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        outer = (((x - 5.0) * x + 8.0) * x - 4.0) * a
        return np.where(x < 1.0, inner, np.where(x < 2.0, outer, 0.0))
    if name == "hamming":
        # Pillow writes the two constants as C floats.
        window = np.float64(np.float32(0.54)) + np.float64(np.float32(0.46)) * np.cos(x * np.pi)
        return np.where(x < 1.0, _sinc(x) * window, 0.0)
    return np.where(x < 3.0, _sinc(x) * _sinc(x / 3.0), 0.0)


def _sinc(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    angle = x * np.pi
    return np.where(x == 0.0, 1.0, np.sin(angle) / np.where(x == 0.0, 1.0, angle))


def _double_weights(
    n_in: int, n_out: int, name: Filter
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """First input index [n_out] and normalised double weights [n_out, widest] of every output index."""
    scale = n_in / n_out
    stretch = max(scale, 1.0)
    reach = _SUPPORT[name] * stretch
    centre = (np.arange(n_out) + 0.5) * scale
    first = np.maximum(np.trunc(centre - reach + 0.5).astype(np.int64), 0)
    count = np.minimum(np.trunc(centre + reach + 0.5).astype(np.int64), n_in) - first
    tap = np.arange(int(count.max()))
    offset = (tap + first[:, None]) - centre[:, None] + 0.5
    weight = _kernel(offset * (1.0 / stretch), name)
    weight[tap >= count[:, None]] = 0.0
    # The libraries add the weights one by one; so does accumulate, while np.sum adds pairwise.
    total = np.add.accumulate(weight, axis=1)[:, -1:]
    return first, np.divide(weight, total, out=weight, where=total != 0.0)


def _shift_of(weight: npt.NDArray[np.float64], library: Library) -> int:
    if library == "pillow":
        return 32 - 8 - 2
    greatest = max(float(weight.max()), 0.0)
    shift = 0
    while shift < 22 and int(0.5 + greatest * (1 << (shift + 1))) < (1 << 15):
        shift += 1
    return shift


def check_axis(n_in: int, n_out: int, name: Filter, library: Library) -> None:
    """Raise ValueError unless the library can resample n_in pixels to n_out with this filter."""
    if library not in FILTERS:
        raise ValueError(f"no resampling library {library!r}; known: {', '.join(FILTERS)}")
    if name not in FILTERS[library]:
        known = ", ".join(FILTERS[library])
        raise ValueError(f"{library} has no antialiased {name!r} filter; it has {known}")
    if n_in < 1 or n_out < 1:
        raise ValueError(f"cannot resample {n_in} pixels to {n_out}: both must be at least 1")


def vertical_first(width: int, height: int, to_width: int, to_height: int, library: Library) -> bool:
    """Whether the library resamples the columns before the rows (the order changes the rounding)."""
    shrink = height - to_height
    return library == "pillow" and _PILLOW_MAJOR >= 13 and shrink > 0 and shrink > 2 * (width - to_width)


@lru_cache(maxsize=256)
def coefficients(n_in: int, n_out: int, filter: Filter, library: Library) -> Coefficients:
    """Weights that resample n_in pixels to n_out, bit for bit those of the library. Cached.

    Taps whose weight is 0 for the whole axis are left out: they change nothing.
    Raises ValueError for a size below 1, or a filter that the library does not have.
    """
    check_axis(n_in, n_out, filter, library)
    first, weight = _double_weights(n_in, n_out, filter)
    shift = _shift_of(weight, library)
    scaled = weight * float(1 << shift)
    fixed = np.trunc(scaled + np.where(scaled < 0.0, -0.5, 0.5)).astype(np.int32)
    return _compact(first, fixed, n_in, shift)


def _compact(
    first: npt.NDArray[np.int64], fixed: npt.NDArray[np.int32], n_in: int, shift: int
) -> Coefficients:
    """Drop the zero weights at both ends of each row and keep every row's window inside the picture."""
    used = fixed != 0
    lead = used.argmax(axis=1)
    last = fixed.shape[1] - 1 - used[:, ::-1].argmax(axis=1)
    last = np.where(used.any(axis=1), last, lead)
    taps = int((last - lead).max()) + 1
    start = np.minimum(first + lead, n_in - taps)
    source = (start - first)[:, None] + np.arange(taps)
    inside = (source >= 0) & (source < fixed.shape[1])
    weight = np.where(inside, np.take_along_axis(fixed, source.clip(0, fixed.shape[1] - 1), axis=1), 0)
    count = first + last - start + 1
    arrays = start.astype(np.int32), count.astype(np.int32), np.ascontiguousarray(weight, dtype=np.int32)
    for array in arrays:
        array.setflags(write=False)
    return Coefficients(*arrays, shift)


@lru_cache(maxsize=256)
def _on_device(
    n_in: int, n_out: int, filter: Filter, library: Library, device: torch.device, stream: int
) -> tuple[Tensor, Tensor]:
    """`first` (int64, for index_select) and `weight` (int32) on the device; one copy per stream in use."""
    axis = coefficients(n_in, n_out, filter, library)
    first, weight = torch.from_numpy(axis.first.astype(np.int64)), torch.from_numpy(axis.weight.copy())
    if device.type == "cuda":
        # From pinned memory the copy is asynchronous: the host never waits for the device.
        first, weight = first.pin_memory(), weight.pin_memory()
    return first.to(device, non_blocking=True), weight.to(device, non_blocking=True)


def _stream_of(device: torch.device) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0


def _one_pass(image: Tensor, dim: int, n_out: int, filter: Filter, library: Library) -> Tensor:
    """Resample one axis of a uint8 tensor: dim is the axis's position."""
    n_in = image.shape[dim]
    if n_in == n_out:
        return image
    axis = coefficients(n_in, n_out, filter, library)
    first, weight = _on_device(n_in, n_out, filter, library, image.device, _stream_of(image.device))
    shape = list(image.shape)
    shape[dim] = n_out
    acc = torch.full(shape, 1 << (axis.shift - 1), dtype=torch.int32, device=image.device)
    step = max(1, _STEP_ELEMENTS // max(1, acc.numel()))
    for start in range(0, axis.taps, step):
        width = min(step, axis.taps - start)
        index = first[:, None] + torch.arange(start, start + width, device=image.device)
        shape[dim : dim + 1] = [n_out, width]
        tap = image.index_select(dim, index.view(-1)).view(shape)
        view = [1] * len(shape)
        view[dim], view[dim + 1] = n_out, width
        acc += (tap * weight[:, start : start + width].reshape(view)).sum(dim + 1, dtype=torch.int32)
        shape[dim : dim + 2] = [n_out]
    return acc.bitwise_right_shift_(axis.shift).clamp_(0, 255).to(torch.uint8)


def _check_image(image: Tensor, width: int, height: int, filter: Filter, library: Library) -> None:
    if image.dtype != torch.uint8 or image.dim() not in (3, 4) or 0 in image.shape:
        raise ValueError(
            f"expected a uint8 image [H, W, C] or [N, H, W, C], got {image.dtype} {list(image.shape)}"
        )
    check_axis(image.shape[-2], width, filter, library)
    check_axis(image.shape[-3], height, filter, library)
    if library == "torchvision" and image.shape[-1] > 4:
        raise ValueError(f"torchvision's integer kernels take up to 4 channels, got {image.shape[-1]}")


def resize(image: Tensor, width: int, height: int, filter: Filter, library: Library) -> Tensor:
    """Resize uint8 images to the library's very bytes, in integer torch ops on the image's device.

    image: uint8 [H, W, C] or [N, H, W, C], any strides. Returns contiguous uint8 [height, width, C] or
    [N, height, width, C]. The host does not wait for the device. On a CPU `resize_native` is faster.
    Working memory: about 10 bytes per byte of the larger pass's result, and at most 100 MB more for the taps.
    Raises ValueError for another dtype or rank, an empty image, a size below 1, or an unknown filter.
    """
    _check_image(image, width, height, filter, library)
    rows, columns = image.dim() - 3, image.dim() - 2
    passes = [(columns, width), (rows, height)]
    if vertical_first(image.shape[columns], image.shape[rows], width, height, library):
        passes.reverse()
    for dim, size in passes:
        image = _one_pass(image, dim, size, filter, library)
    return image.contiguous()


def resize_native(image: Tensor, width: int, height: int, filter: Filter, library: Library) -> Tensor:
    """The same by the library itself: the reference of the tests, and the fallback.

    image: uint8 [H, W, C] or [N, H, W, C] on the CPU. Returns and raises as `resize`.
    """
    _check_image(image, width, height, filter, library)
    if library == "torchvision":
        return _torchvision(image, width, height, filter)
    images = image if image.dim() == 4 else image[None]
    resized = torch.stack([_pillow(one, width, height, filter) for one in images])
    return resized if image.dim() == 4 else resized[0]


def _torchvision(image: Tensor, width: int, height: int, filter: Filter) -> Tensor:
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional

    planes = image.movedim(-1, -3)
    mode = InterpolationMode(filter)
    resized: Tensor = functional.resize(planes, [height, width], interpolation=mode, antialias=True)
    return resized.movedim(-3, -1).contiguous()


def _pillow(image: Tensor, width: int, height: int, filter: Filter) -> Tensor:
    from PIL import Image

    def one(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        picture = Image.fromarray(pixels).resize((width, height), Image.Resampling[filter.upper()])
        return np.array(picture)

    pixels = np.ascontiguousarray(image.numpy())
    if pixels.shape[-1] == 3:
        return torch.from_numpy(one(pixels))
    bands = [one(np.ascontiguousarray(pixels[..., band])) for band in range(pixels.shape[-1])]
    return torch.from_numpy(np.stack(bands, axis=-1))


@lru_cache(maxsize=16)
def verified(filter: Filter, library: Library) -> bool:
    """Whether `resize` and the library give the same bytes in this process, tried on a few small images.

    Another release of the library, or a build for another processor, may round differently: without AVX2,
    for example, torchvision resizes bilinear in float. Ask once before relying on `resize`; it takes about
    10 ms.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = ((48, 64, 101, 179), (97, 83, 24, 19), (83, 67, 60, 92), (5, 3, 7, 3), (1, 2, 9, 11))
    for height, width, to_height, to_width in sizes:
        image = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8, generator=generator)
        ours = resize(image, to_width, to_height, filter, library)
        if not torch.equal(ours, resize_native(image, to_width, to_height, filter, library)):
            return False
    return True
