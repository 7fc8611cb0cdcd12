"""Pictures as rows of patches, for a patch convolution that is computed as one matrix product."""

from __future__ import annotations

import math

import torch

from . import resample_numba
from .memory import empty

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def patch_rows(pictures: torch.Tensor, height: int, width: int, size: int) -> torch.Tensor:
    """Pictures [n, C, H, W] as rows of patches [n * (H // height) * (W // width), size], stock's own values.

    size: C * height * width, the values of one patch. On a CPU the rows lie in huge pages, and with one
    thread a compiled kernel writes them; elsewhere, and for pictures that are not contiguous, torch does it.
    Raises RuntimeError, as stock does, for pictures that are smaller than a patch or another `size`.
    """
    patches = pictures.unfold(2, height, height).unfold(3, width, width).permute(0, 2, 3, 1, 4, 5)
    whole = size == math.prod(patches.shape[3:])
    if torch.compiler.is_compiling() or not whole or not _copied(pictures, patches):
        return patches.reshape(-1, size)
    rows = empty((patches.numel() // size, size), pictures.dtype, pictures.device)
    if _compiled(pictures):
        from .resample_kernels import rows_of_patches

        bits = _BITS[pictures.dtype.itemsize]
        rows_of_patches(pictures.view(bits).numpy(), height, width, rows.view(bits).numpy())
    else:
        rows.view(patches.shape).copy_(patches)
    return rows


def _copied(pictures: torch.Tensor, patches: torch.Tensor) -> bool:
    """Whether stock copies pictures on a CPU to make rows [-1, C * height * width] of their patches.

    It takes a view where a picture is one patch, and where patches are lines or columns or have one channel
    it may; all of these are left to it.
    """
    return (
        type(pictures) is torch.Tensor
        and pictures.is_cpu
        and pictures.is_contiguous()
        and not pictures.requires_grad
        and min(patches.shape[3:]) > 1
        and patches.numel() > 0
        and not patches.is_contiguous()
    )


def _compiled(pictures: torch.Tensor) -> bool:
    """Whether the kernel writes the rows: with more than one thread torch, which uses all, is the faster."""
    one_thread = torch.get_num_threads() == 1
    return one_thread and resample_numba.HAVE_NUMBA and pictures.dtype.itemsize in _BITS
