"""Masks of ones that occupy one element, and the little arithmetic that models do on them, without the mask.

Such a mask reads as a tensor of ones and is never written to. It is known by a mark on the tensor object;
where a model has made another tensor of it the mark is gone, and the model's own arithmetic gives the same
result.
"""

from __future__ import annotations

import torch

_MARK = "_vlmopt_ones"
_HEAD = 256
"""Values at the head of a row that are looked at first."""


def ones(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Ones, int64, of `shape`, that occupy one element."""
    mask = torch.ones((), dtype=torch.int64, device=device).expand(shape)
    setattr(mask, _MARK, True)
    return mask


def is_ones(mask: torch.Tensor) -> bool:
    """Whether a mask was made by `ones`."""
    return getattr(mask, _MARK, False)


def holds_values(pixels: torch.Tensor) -> torch.Tensor:
    """Which rows of `[n, ...]` are not zero throughout: bool `[n]`, as counting the zeros of each row tells.

    On a CPU the head of a row mostly decides, and the rest is then not read.
    """
    if pixels.is_cpu:
        heads = (pixels.flatten(1)[:, :_HEAD] != 0).any(dim=1)
        if heads.all():
            return heads
    return (pixels != 0).flatten(1).any(dim=1)


def kept_rows(rows: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """`rows[kept].contiguous()` for a bool `kept` of `[len(rows)]`; nothing is copied where all are kept."""
    if kept.all():
        return rows if is_ones(rows) else rows.contiguous()
    if is_ones(rows):
        return ones((int(kept.sum()), *rows.shape[1:]), rows.device)
    return rows[kept].contiguous()


def patches_of_ones(mask: torch.Tensor, patch: int) -> torch.Tensor:
    """Which patches of a mask of ones `[n, h, w]` hold a one: all, as bool `[n, h // patch, w // patch]`."""
    count, height, width = mask.shape
    return torch.ones((count, height // patch, width // patch), dtype=torch.bool, device=mask.device)
