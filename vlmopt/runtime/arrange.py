"""From a picture's bytes to the tensor that the stock processor makes of it, on a CPU or on a device.

Three steps, all exact: resample in fixed point (`resample`), cut the windows, and look each byte up in the
table of normalised values, which holds what the stock arithmetic gives for 0..255 in each channel. On a CPU
the three are one pass of a compiled kernel; elsewhere they are integer operations of torch.
"""

from __future__ import annotations

import numpy as np
import torch

from . import resample, resample_numba
from .layout import Layout, Parcel, Patches
from .resample_numba import Planar

_BITS = {torch.bfloat16: torch.uint16, torch.float16: torch.uint16, torch.float32: torch.float32}

_LARGE = 0 if torch.backends.cpu.get_cpu_capability() == "AVX2" else 9_000_000
"""Bytes of a picture from which on torchvision's own resize is faster than the compiled kernels.

It is written for vectors of AVX2; the compiled kernels use those of AVX-512 where there are such.
"""


def write_item(payload: torch.Tensor, parcel: Parcel, out: torch.Tensor) -> None:
    """Fill `out`, of `parcel.item_shape` and `parcel.dtype`, from a uint8 payload `[n]` on its device."""
    head = parcel.table_bytes
    layout = parcel.layout
    picture = payload[head:].view(layout.height, layout.width, 3)
    table = payload[:head].view(parcel.dtype).view(3, 256) if head else None
    out = out.view(layout.shape)
    windows = out if layout.patches is None else out.new_empty((1, 3, *layout.window))
    compiled = out.is_cpu and resample_numba.HAVE_NUMBA and not parcel.native
    if compiled:
        _write_windows_compiled(picture, layout, table, windows)
    else:
        _write_windows(picture, layout, table, windows, native=out.is_cpu)
    if layout.patches is not None:
        write_patches = _write_patches_compiled if compiled else _write_patches
        write_patches(windows[0], layout.patches, out)


def cut_windows(picture: np.ndarray, layout: Layout, *, native: bool) -> np.ndarray:
    """The windows of a picture, uint8 `[H, W, 3]`, below each other: uint8 `[n * win_h, win_w, 3]`."""
    pictures = [picture]
    for stage in layout.stages:
        pictures.append(
            _resize_on_host(pictures[stage.source], stage.width, stage.height, layout, native=native)
        )
    height, width = layout.window
    out = np.zeros((len(layout.windows), height, width, 3), np.uint8)
    for share, window in zip(out, layout.windows, strict=True):
        source = pictures[window.source]
        top, left = max(window.y, 0), max(window.x, 0)
        part = source[top : window.y + height, left : window.x + width]
        y, x = top - window.y, left - window.x
        share[y : y + part.shape[0], x : x + part.shape[1]] = part
    return out.reshape(len(layout.windows) * height, width, 3)


def _resize_on_host(
    picture: np.ndarray, width: int, height: int, layout: Layout, *, native: bool
) -> np.ndarray:
    if picture.shape[:2] == (height, width):
        return picture
    large = layout.library == "torchvision" and picture.size > _LARGE
    if native or large or not resample_numba.HAVE_NUMBA:
        tensor = torch.from_numpy(picture) if picture.flags.writeable else torch.tensor(picture)
        resized: np.ndarray = resample.resize_native(
            tensor, width, height, layout.resample, layout.library
        ).numpy()
        return resized
    return resample_numba.resize_hwc(picture, width, height, layout.resample, layout.library)


def _write_windows_compiled(
    picture: torch.Tensor, layout: Layout, table: torch.Tensor | None, out: torch.Tensor
) -> None:
    bits = None if table is None else table.view(_BITS[table.dtype]).numpy()
    target = out.numpy() if table is None else out.view(_BITS[out.dtype]).numpy()
    filters = (layout.resample, layout.library)
    needed = {stage.source for stage in layout.stages}
    pictures: dict[int, np.ndarray | Planar] = {0: picture.numpy()}
    done = 0
    for source in range(len(layout.stages) + 1):
        windows = [(window.y, window.x) for window in layout.windows if window.source == source]
        share = target[done : done + len(windows)]
        done += len(windows)
        if source:
            stage = layout.stages[source - 1]
            origin = pictures[stage.source]
            if source not in needed:
                if windows:
                    resample_numba.resize_windows(
                        origin, stage.width, stage.height, *filters, windows, *layout.window, bits, share
                    )
                continue
            pictures[source] = resample_numba.resize_planar(origin, stage.width, stage.height, *filters)
        if windows:
            resample_numba.pack_windows(pictures[source], windows, *layout.window, bits, share)


def _write_windows(
    picture: torch.Tensor, layout: Layout, table: torch.Tensor | None, out: torch.Tensor, *, native: bool
) -> None:
    resize = resample.resize_native if native else resample.resize
    pictures = [picture]
    for stage in layout.stages:
        origin = pictures[stage.source]
        if tuple(origin.shape[:2]) != (stage.height, stage.width):
            origin = resize(origin, stage.width, stage.height, layout.resample, layout.library)
        pictures.append(origin)
    height, width = layout.window
    for share, window in zip(out, layout.windows, strict=True):
        source = pictures[window.source]
        top, left = max(window.y, 0), max(window.x, 0)
        part = source[top : window.y + height, left : window.x + width]
        if tuple(part.shape[:2]) != (height, width):
            whole = part.new_zeros((height, width, 3))
            y, x = top - window.y, left - window.x
            whole[y : y + part.shape[0], x : x + part.shape[1]] = part
            part = whole
        planes = part.permute(2, 0, 1)
        if table is None:
            share.copy_(planes)
        else:
            for plane, values, target in zip(planes, table, share, strict=True):
                target.copy_(values[plane.int()])


def _write_patches_compiled(picture: torch.Tensor, patches: Patches, out: torch.Tensor) -> None:
    bits = _BITS.get(out.dtype, out.dtype)
    numbers = patches.patch, patches.merge, patches.repeat
    resample_numba.write_patches(picture.view(bits).numpy(), *numbers, out.view(bits).numpy())


def _write_patches(picture: torch.Tensor, patches: Patches, out: torch.Tensor) -> None:
    """A picture `[3, H, W]` as rows of patches, cells of one merged group next to each other."""
    channels, height, width = picture.shape
    patch, merge = patches.patch, patches.merge
    blocks = picture.view(
        channels, height // (patch * merge), merge, patch, width // (patch * merge), merge, patch
    ).permute(1, 4, 2, 5, 0, 3, 6)
    target = out.view(*blocks.shape[:5], patches.repeat, patch, patch)
    target.copy_(blocks.unsqueeze(5).expand_as(target))
