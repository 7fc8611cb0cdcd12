"""Packed images become what the stock processor would have sent, where a batch reaches the device.

`restore_items` stands before stock's own grouping of items into batches, so grouping follows stock's rules
on stock's field names. A packed image is grouped by its plan alone; its pixels are made when the batch is
reduced: one copy of the raw bytes, then one write of each picture into its share of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from vllm.multimodal.inputs import (
    BaseMultiModalField,
    MultiModalBatchedField,
    MultiModalFieldElem,
    MultiModalFlatField,
    MultiModalKwargsItem,
)

from . import keys
from .h2d import copy_together
from .layout import Parcel, decode
from .memory import empty
from .ones import ones


@dataclass(frozen=True)
class PackedPixels:
    """An image under way: uint8 payload `[n]` and how to read it."""

    payload: torch.Tensor
    parcel: Parcel


@dataclass(frozen=True)
class Ones:
    """A tensor of ones that was never sent, int64."""

    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RestoredField(BaseMultiModalField):
    """A field of a batch that holds packed images; `stock` is the field of an item that is not packed."""

    stock: BaseMultiModalField | None = None

    def build_elems(self, modality: str, key: str, data: Any) -> Sequence[MultiModalFieldElem]:
        raise NotImplementedError("packed images are built by the image processor alone")

    def _reduce_data(self, batch: list[Any], *, pin_memory: bool) -> Any:
        raise NotImplementedError("packed images are reduced by reduce_data")

    def reduce_data(
        self, elems: list[MultiModalFieldElem], *, device: Any = None, pin_memory: bool = False
    ) -> Any:
        """The batch's tensor, on `device`: joined or stacked as the stock field does it."""
        device = torch.device("cpu" if device is None else device)
        data = [elem.data for elem in elems]
        if all(isinstance(part, Ones) for part in data):
            return ones((sum(part.shape[0] for part in data), *data[0].shape[1:]), device)
        if all(isinstance(part, PackedPixels) for part in data):
            return _restore(data, device, pin_memory=pin_memory)
        stock = next(elem.field.stock for elem in elems if elem.field.stock is not None)
        made = [MultiModalFieldElem(data=_alone(part, device, pin_memory), field=stock) for part in data]
        return stock.reduce_data(made, device=device, pin_memory=pin_memory and device.type == "cpu")


def restore_items(items: Sequence[MultiModalKwargsItem]) -> Sequence[MultiModalKwargsItem]:
    """Items under stock's field names; a sequence without packed images comes back as it is."""
    if not any(keys.PLAN in item for item in items):
        return items
    fields = {
        name
        for item in items
        for key in item
        if (name := keys.payload_field(key) or keys.ones_field(key)) is not None
    }
    return [_restored(item, fields) for item in items]


def _restored(item: MultiModalKwargsItem, fields: set[str]) -> MultiModalKwargsItem:
    restored = {}
    for key, elem in item.items():
        if (field := keys.payload_field(key)) is not None:
            pixels = PackedPixels(elem.data, decode(item[keys.PLAN].data))
            restored[field] = MultiModalFieldElem(data=pixels, field=RestoredField())
        elif (field := keys.ones_field(key)) is not None:
            shape = Ones(tuple(elem.data.tolist()))
            restored[field] = MultiModalFieldElem(data=shape, field=RestoredField())
        elif key in fields and elem.data is not None:
            restored[key] = MultiModalFieldElem(data=elem.data, field=RestoredField(stock=elem.field))
        elif key != keys.PLAN:
            restored[key] = elem
    return MultiModalKwargsItem(restored)


def _restore(pixels: list[PackedPixels], device: torch.device, *, pin_memory: bool) -> Any:
    from .arrange import write_item

    payloads = copy_together([part.payload for part in pixels], device, pin_memory=pin_memory)
    parcels = [part.parcel for part in pixels]
    first = parcels[0]
    shapes = [parcel.item_shape for parcel in parcels]
    stacked = first.stacked
    dtypes = {parcel.dtype for parcel in parcels}
    if len(dtypes) > 1 or len({shape if stacked else shape[1:] for shape in shapes}) > 1:
        made = []
        for payload, parcel in zip(payloads, parcels, strict=True):
            out = empty(parcel.item_shape, parcel.dtype, device)
            write_item(payload, parcel, out)
            made.append(out)
        field = MultiModalBatchedField() if stacked else MultiModalFlatField(slices=[])
        return field.reduce_data(
            [MultiModalFieldElem(data=part, field=field) for part in made], device=device
        )
    lead = len(shapes) if stacked else sum(shape[0] for shape in shapes)
    batch = empty((lead, *(shapes[0] if stacked else shapes[0][1:])), first.dtype, device)
    at = 0
    for payload, parcel, shape in zip(payloads, parcels, shapes, strict=True):
        step = 1 if stacked else shape[0]
        write_item(payload, parcel, batch[at : at + step])
        at += step
    return batch


def _alone(data: Any, device: torch.device, pin_memory: bool) -> Any:
    """One item's tensor on `device`, for a batch that mixes packed and unpacked items."""
    if isinstance(data, Ones):
        return ones(data.shape, device)
    if isinstance(data, PackedPixels):
        from .arrange import write_item

        (payload,) = copy_together([data.payload], device, pin_memory=pin_memory)
        out = empty(data.parcel.item_shape, data.parcel.dtype, device)
        write_item(payload, data.parcel, out)
        return out
    return data.to(device) if isinstance(data, torch.Tensor) else data
