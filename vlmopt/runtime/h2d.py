"""One host-to-device copy for many tensors.

Tensors of one batch are gathered into one page-locked buffer, which crosses in one non-blocking copy and is
split into views on the device. Offsets are multiples of 256 bytes, the alignment of a device allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from vllm.multimodal.inputs import MultiModalBatchedField, MultiModalFieldElem, MultiModalFlatField

_ALIGNMENT = 256


def on_device(device: Any) -> bool:
    """Whether a copy to `device` leaves the host; None means that the data stays where it is."""
    return device is not None and torch.device(device).type != "cpu"


class Arena:
    """A host buffer of `size` bytes, page-locked where asked; `take` hands out its parts in order."""

    def __init__(self, size: int, *, pin_memory: bool) -> None:
        self._host = torch.empty(size, dtype=torch.uint8, pin_memory=pin_memory)
        self._pinned = pin_memory
        self._used = 0

    @staticmethod
    def room(nbytes: int) -> int:
        """Bytes that a part of `nbytes` takes, padding included."""
        return -(-nbytes // _ALIGNMENT) * _ALIGNMENT

    def take(self, nbytes: int) -> tuple[int, torch.Tensor]:
        """(offset, uint8 view of `nbytes`) of the next free part."""
        offset = self._used
        self._used += self.room(nbytes)
        return offset, self._host[offset : offset + nbytes]

    def to(self, device: Any) -> torch.Tensor:
        """The buffer on `device`, by one copy."""
        return self._host.to(device, non_blocking=self._pinned)


def copy_together(tensors: Sequence[torch.Tensor], device: Any, *, pin_memory: bool) -> list[torch.Tensor]:
    """The tensors on `device`, of the same shapes and dtypes, by one copy. Tensors already there stay."""
    if not on_device(device) or not all(tensor.is_cpu for tensor in tensors):
        return [tensor if device is None else tensor.to(device) for tensor in tensors]
    arena = Arena(sum(Arena.room(tensor.nbytes) for tensor in tensors), pin_memory=pin_memory)
    offsets = []
    for tensor in tensors:
        offset, part = arena.take(tensor.nbytes)
        part.copy_(tensor.contiguous().view(-1).view(torch.uint8))
        offsets.append(offset)
    moved = arena.to(device)
    return [
        moved[offset : offset + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for offset, tensor in zip(offsets, tensors, strict=True)
    ]


def reduce_together(
    elems: Mapping[str, list[MultiModalFieldElem]], *, device: Any, pin_memory: bool
) -> dict[str, Any]:
    """What stock makes of a batch, field by field, with one copy for all joined or stacked tensors.

    Fields that stay on the host, nested lists, uneven shapes and fields of other kinds go stock's way.
    """
    out: dict[str, Any] = {}
    together: dict[str, tuple[MultiModalFieldElem, list[torch.Tensor], tuple[int, ...]]] = {}
    for key, column in elems.items():
        shape = _reduced_shape(column) if on_device(device) else None
        if shape is None:
            out[key] = column[0].field.reduce_data(column, device=device, pin_memory=pin_memory)
        else:
            together[key] = (column[0], [elem.data for elem in column], shape)
    if not together:
        return out
    arena = Arena(sum(Arena.room(_nbytes(data)) for _, data, _ in together.values()), pin_memory=pin_memory)
    offsets = {}
    for key, (first, data, shape) in together.items():
        offsets[key], part = arena.take(_nbytes(data))
        target = part.view(data[0].dtype).view(shape)
        if isinstance(first.field, MultiModalFlatField):
            torch.concat(data, dim=first.field.dim, out=target)
        else:
            torch.stack(data, out=target)
    moved = arena.to(device)
    for key, (_, data, shape) in together.items():
        part = moved[offsets[key] : offsets[key] + _nbytes(data)]
        out[key] = part.view(data[0].dtype).view(shape)
    return {key: out[key] for key in elems}


def _nbytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _reduced_shape(elems: list[MultiModalFieldElem]) -> tuple[int, ...] | None:
    """Shape of the batch where it is one plain host tensor bound for the device, else None."""
    field = elems[0].field
    data = [elem.data for elem in elems]
    plain = all(isinstance(part, torch.Tensor) and part.is_cpu and part.numel() > 0 for part in data)
    if field.keep_on_cpu or not plain or any(type(elem.field) is not type(field) for elem in elems):
        return None
    first = data[0]
    if any(part.dtype != first.dtype or part.ndim != first.ndim for part in data):
        return None
    if type(field) is MultiModalBatchedField:
        same = all(part.shape == first.shape for part in data)
        return (len(data), *first.shape) if same else None
    if type(field) is MultiModalFlatField and first.ndim:
        dim = field.dim % first.ndim
        around = (*first.shape[:dim], *first.shape[dim + 1 :])
        if all((*part.shape[:dim], *part.shape[dim + 1 :]) == around for part in data):
            joined = sum(part.shape[dim] for part in data)
            return (*first.shape[:dim], joined, *first.shape[dim + 1 :])
    return None
