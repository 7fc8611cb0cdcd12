"""Packs the images of one processor: pictures in, payloads and plans out.

A picture is sent raw, or as windows already cut where those are clearly fewer bytes, with a table of the
normalised values; the small fields that stock computes from sizes are filled in beside it. No spec is
trusted: when a packer is made, stock's processor is run on sample pictures and every value is compared with
what the device would rebuild.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from transformers import BatchFeature
from transformers.image_processing_utils import BaseImageProcessor

from . import keys
from .arrange import cut_windows
from .calibrate import calibrate, check_prompt, mode_matches
from .geometry import Geometry, Unsupported
from .layout import Layout, Parcel
from .pixels import behind, read_pixels
from .probing import stock_behaviour
from .resample import Filter, Library, filter_name, verified

_EXACT_AFTER_RESIZE = ("RGB", "L")
"""Modes in which resizing before the conversion to RGB gives the bytes of resizing after it."""

_CACHED_PLANS = 4096

_RAW_MAY_BE = 1.25
"""A picture is cut on the host where raw it would be more than this many times the bytes."""


class Packer:
    """Packs the images of one processor.

    Raises:
        Unsupported: the geometry or its parameters are not covered.
        Mismatch: the stock processor's output is not what the spec leads to.
    """

    def __init__(self, processor: Any, spec: Mapping[str, Any]) -> None:
        flag = type(processor)
        self._processor = processor
        self._raw = getattr(flag, "vlmopt_device_resize", False)
        self._implicit_mask = getattr(flag, "vlmopt_implicit_mask", False)
        self._native = not getattr(flag, "vlmopt_fast_image_ops", False)
        self._before = spec["convert"] == "before-resize"
        self._outputs: dict[str, str] = spec["outputs"]
        parameters = _parameters(processor, spec)
        geometry = Geometry(spec["geometry"], parameters)
        _check_resample(parameters["resample"], parameters["library"])
        self._calibration = calibrate(processor, geometry, self._outputs)
        floats = self._calibration.table is not None
        for recipe in ("device_normalize", "uint8_transfer") if floats else ("device_resize",):
            if not getattr(flag, f"vlmopt_{recipe}", False):
                raise Unsupported(f"recipe {recipe.replace('_', '-')} is not applied")
        self._exact_geometry = geometry
        self._modes = {"RGB": True}
        if getattr(flag, "vlmopt_single_pass_resize", False):
            geometry = Geometry(spec["geometry"], {**parameters, "single_pass": True})
        self._geometry = geometry
        self._head = self._calibration.table_bytes()
        self._plans: dict[Layout, tuple[Layout, torch.Tensor]] = {}
        check_prompt(processor, self.pack)

    def pack(self, images: Sequence[Any]) -> BatchFeature:
        """The output for these pictures, each with its payload, its plan and its small fields.

        Raises:
            Unsupported: one of them is left to the stock processor.
        """
        pictures = [self._rgb(image) for image in images]
        layouts = [self._geometry.layout(*picture.size) for picture in pictures]
        payloads, plans = [], []
        for picture, layout in zip(pictures, layouts, strict=True):
            sent, plan = self._sent(layout)
            payloads.append(self._payload(picture, layout, sent))
            plans.append(plan)
        return BatchFeature({keys.PLAN: plans, **self._fields(layouts, payloads)})

    def _rgb(self, image: Any) -> Image.Image:
        if not isinstance(image, Image.Image):
            raise Unsupported("a picture that is not a PIL image")
        if image.mode == "RGB":
            return image
        if image.mode not in self._modes:
            self._modes[image.mode] = self._covers(image.mode)
        if not self._modes[image.mode]:
            raise Unsupported(f"a picture in mode {image.mode}")
        return image.convert("RGB")

    def _covers(self, mode: str) -> bool:
        """Whether converting first gives what stock gives for pictures of this mode, tried on one of them."""
        if not self._before and mode not in _EXACT_AFTER_RESIZE:
            return False
        with stock_behaviour():
            return mode_matches(mode, self._processor, self._exact_geometry, self._outputs, self._calibration)

    def _sent(self, layout: Layout) -> tuple[Layout, torch.Tensor]:
        """The layout that the payload begins with (raw, or cut) and its encoded plan."""
        known = self._plans.get(layout)
        if known is None:
            raw = self._raw and layout.raw_bytes <= _RAW_MAY_BE * layout.window_bytes
            sent = layout if raw else layout.cut()
            calibration = self._calibration
            parcel = Parcel(sent, calibration.dtype, calibration.stacked, self._native)
            known = (sent, parcel.encode())
            if len(self._plans) < _CACHED_PLANS:
                self._plans[layout] = known
        return known

    def _payload(self, picture: Image.Image, layout: Layout, sent: Layout) -> torch.Tensor:
        """Table, then pixels: uint8 `[n]`."""
        pixels = read_pixels(picture)
        if sent is not layout:
            pixels = cut_windows(pixels, layout, native=self._native)
        return behind(self._head, pixels)

    def _fields(self, layouts: Sequence[Layout], payloads: list[torch.Tensor]) -> dict[str, Any]:
        fields: dict[str, Any] = dict(self._calibration.constants)
        for name, what in self._outputs.items():
            if what == "pixels":
                fields[keys.payload_key(name)] = payloads
            elif what == "tile-count":
                fields[name] = torch.tensor([len(layout.windows) for layout in layouts])
            elif what == "grid-thw":
                fields[name] = torch.tensor([_grid(layout) for layout in layouts])
            elif what == "mask" and self._implicit_mask:
                fields[keys.ones_key(name)] = [_mask_shape(layout) for layout in layouts]
            elif what == "mask":
                shapes = [_mask_shape(layout).tolist() for layout in layouts]
                fields[name] = torch.ones(
                    (sum(shape[0] for shape in shapes), *shapes[0][1:]), dtype=torch.int64
                )
        return fields


def _grid(layout: Layout) -> list[int]:
    if layout.patches is None:
        raise Unsupported("a grid of patches that this geometry does not make")
    height, width = layout.window
    return [1, height // layout.patches.patch, width // layout.patches.patch]


def _mask_shape(layout: Layout) -> torch.Tensor:
    return torch.tensor([len(layout.windows), *layout.window])


def _parameters(processor: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The geometry's parameters, read where the spec says that stock's own processor keeps them."""
    hf_processor = _as_called(processor)

    def value(entry: Any) -> Any:
        if isinstance(entry, Mapping):
            return _attribute(hf_processor, entry["attribute"])
        return entry

    parameters = {name: value(entry) for name, entry in spec["parameters"].items()}
    return {**parameters, "library": spec["library"], "resample": _filter(value(spec["resample"]))}


def _as_called(processor: Any) -> Any:
    """Stock's HF processor with its image processor's attributes as they hold in a call.

    The engine's own processor arguments are handed to each call and do not all reach the attributes. The
    image processor knows best what they mean, so it is made again with them.
    """
    hf_processor = processor.info.get_hf_processor()
    merged = processor.info.ctx.get_merged_mm_kwargs({})
    arguments = {key: value for key, value in merged.items() if not key.endswith("_kwargs")}
    arguments |= merged.get("images_kwargs") or {}
    image_processor = getattr(hf_processor, "image_processor", None)
    if not arguments or not isinstance(image_processor, BaseImageProcessor):
        return hf_processor
    as_called = copy.copy(hf_processor)
    try:
        as_called.image_processor = type(image_processor).from_dict(image_processor.to_dict(), **arguments)
    except (AttributeError, TypeError, ValueError) as error:
        raise Unsupported(f"the processor arguments {arguments} of the engine: {error}") from error
    return as_called


def _attribute(root: Any, path: str) -> Any:
    found = root
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else getattr(found, step, None)
        if found is None:
            raise Unsupported(f"the stock processor has no {path}")
    return found


def _check_resample(resample: Filter, library: Library) -> None:
    try:
        same = verified(resample, library)
    except ValueError as error:
        raise Unsupported(str(error)) from error
    if not same:
        raise Unsupported(f"{library} resizes with another arithmetic on this machine")


def _filter(resample: Any) -> Filter:
    """The filter's name, from a name, or a number or enumeration of Pillow's or torchvision's."""
    try:
        return filter_name(getattr(resample, "value", resample))
    except ValueError as error:
        raise Unsupported(str(error)) from error
