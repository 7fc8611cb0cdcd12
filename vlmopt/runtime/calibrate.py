"""Reading the table of normalised values off the stock processor, and checking a geometry against it.

Normalising works on each value alone, so on uint8 input it is a table of 256 results a channel. The stock
processor is run on pictures whose bytes after its resize are known; what it makes of them is the table. A
table that would need two results for one byte means that some byte was not what the geometry says, and
nothing is trusted. One picture holds every value in every channel, the others put the resize to the test, and
where the tensor's size follows the picture's, two more its limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from vllm.multimodal.inputs import MultiModalBatchedField, MultiModalKwargsItems

from .arrange import write_item
from .geometry import Geometry, Unsupported
from .layout import DTYPES, Layout, Parcel
from .packing import with_packed_fields

_BITS = {
    torch.uint8: torch.uint8,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
    torch.float32: torch.int32,
}


class Mismatch(Exception):
    """The stock processor's output is not what the spec leads to; the message says where they part."""


@dataclass(frozen=True)
class Calibration:
    """What was read off the stock processor.

    `table` holds bits of `dtype`, `[3, 256]`, None where pixels stay uint8; `stacked` tells whether a picture
    is stacked with others along a new axis; `constants` are outputs that depend on no picture.
    """

    table: torch.Tensor | None
    dtype: torch.dtype
    stacked: bool
    constants: Mapping[str, torch.Tensor]

    def bits(self) -> torch.Tensor:
        """The table as `[3, 256]` integers of the dtype's size; the identity where pixels stay uint8."""
        if self.table is None:
            return torch.arange(256, dtype=torch.uint8).expand(3, 256)
        return self.table.view(_BITS[self.dtype])

    def table_bytes(self) -> np.ndarray:
        """The table as uint8 `[n]`, empty where there is none."""
        if self.table is None:
            return np.empty(0, np.uint8)
        return self.table.contiguous().view(-1).view(torch.uint8).numpy()


_LARGEST = 4096
"""Pixels on a side of the largest picture that a limit is looked for with."""


def sample_pictures() -> list[Image.Image]:
    """One picture of 256 flat fields, whose values outlive any resize; others of noise over a ramp.

    The last is a ribbon, which reaches what limits tiles in a row and lengths of a side.
    """
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16).repeat(24, 0).repeat(24, 1)
    fields = np.stack([ramp, 255 - ramp, ramp * np.uint8(7) + np.uint8(31)], axis=-1)
    pictures = [fields]
    noise = np.random.default_rng(2603)
    for height, width in ((97, 146), (190, 61), (18, 640)):
        slope = np.linspace(0, 200, width)[None, :, None]
        pictures.append((slope + noise.integers(0, 56, (height, width, 3))).astype(np.uint8))
    return [Image.fromarray(picture) for picture in pictures]


def limit_pictures(geometry: Geometry) -> list[Image.Image]:
    """The smallest picture, and one so large that a larger one would make no more; none for fixed windows."""
    try:
        small, large = (geometry.layout(side, side) for side in (16, 512))
    except Unsupported:
        return []
    if small.window == large.window:
        return []
    side = 512
    while side < _LARGEST and large.window != (larger := geometry.layout(2 * side, 2 * side)).window:
        side, large = 2 * side, larger
    return [Image.new("RGB", (16, 16)), Image.new("RGB", (side, side))]


def calibrate(processor: Any, geometry: Geometry, outputs: Mapping[str, str]) -> Calibration:
    """Run stock on the sample pictures and hold its whole output against the geometry's.

    Args:
        processor: the multimodal processor, in stock's own behaviour.
        geometry: the geometry that the spec names.
        outputs: what each field of the stock output is (`pixels`, `mask`, `tile-count`, `grid-thw`).

    Raises:
        Mismatch: they differ, or stock's output has a field that is neither named nor constant.
        Unsupported: a sample's size is not covered.
    """
    fields, *noisy = sample_pictures()
    runs = [(group, _stock(processor, group)) for group in ([fields], noisy)]
    name = next(key for key, what in outputs.items() if what == "pixels")
    pixels = runs[0][1].get(name)
    if not isinstance(pixels, torch.Tensor) or pixels.dtype not in DTYPES:
        raise Mismatch(f"stock's {name} is no tensor of a known type")
    layout = geometry.layout(*fields.size)
    stacked = _is_stacked(processor, runs[0][1], name)
    read = _read_table(_as_windows(pixels, layout), _bytes_of(fields, layout))
    for pictures, stock in runs:
        _check(pictures, stock, geometry, outputs, read)
    for picture in limit_pictures(geometry):
        _check_shape(_stock(processor, [picture])[name], geometry.layout(*picture.size))
    table = None if pixels.dtype == torch.uint8 else read.view(pixels.dtype)
    constants = _constants([stock for _, stock in runs], outputs)
    calibration = Calibration(table, pixels.dtype, stacked, constants)
    if not torch.equal(read, calibration.bits()):
        raise Mismatch("stock's pixels are bytes, but not the picture's")
    return calibration


def check_prompt(processor: Any, pack: Callable[[list[Image.Image]], Mapping[str, Any]]) -> None:
    """Whether stock writes the same placeholders into a prompt when it is handed packed images.

    Args:
        processor: the multimodal processor, in stock's own behaviour.
        pack: makes the packed output for pictures.

    Raises:
        Mismatch: it does not, or it needs a field that packed images do not have.
    """
    pictures = sample_pictures()[1:]
    items = processor.info.parse_mm_data({"image": pictures}, validate=False)
    contents = []
    for output in (_stock(processor, pictures), pack(pictures)):
        fields = with_packed_fields(output, processor._get_mm_fields_config(output, {}))
        kwargs = MultiModalKwargsItems.from_hf_inputs(output, fields)
        try:
            updates = processor._get_mm_prompt_updates(items, {}, kwargs)
        except (KeyError, AttributeError) as error:
            raise Mismatch(f"the prompt is written from a field that is not sent: {error}") from error
        contents.append([[update.content.full for update in item] for item in updates["image"]])
    if contents[0] != contents[1]:
        raise Mismatch("stock writes other placeholders for packed images")


def mode_matches(
    mode: str, processor: Any, geometry: Geometry, outputs: Mapping[str, str], calibration: Calibration
) -> bool:
    """Whether stock makes of a picture in `mode` what the geometry makes of the picture converted to RGB."""
    picture = sample_pictures()[1]
    try:
        if mode in ("LA", "RGBA", "PA", "La", "RGBa"):
            alpha = picture.getchannel(0).transpose(Image.Transpose.FLIP_TOP_BOTTOM)
            picture.putalpha(alpha)
        sample = picture.convert(mode)
        stock = _stock(processor, [sample])
        name = next(key for key, what in outputs.items() if what == "pixels")
        rgb = sample.convert("RGB")
        _check_pixels(rgb, geometry.layout(*rgb.size), stock[name], calibration.bits())
    except (Mismatch, ValueError, OSError):
        return False
    return True


def _stock(processor: Any, pictures: list[Image.Image]) -> Mapping[str, Any]:
    items = processor.info.parse_mm_data({"image": pictures}, validate=False)
    output: Mapping[str, Any] = processor._apply_hf_processor_main(mm_items=items, hf_kwargs={})
    return output


def _is_stacked(processor: Any, output: Mapping[str, Any], name: str) -> bool:
    config = processor._get_mm_fields_config(output, {})
    return isinstance(config[name].field, MultiModalBatchedField)


def _bytes_of(picture: Image.Image, layout: Layout) -> torch.Tensor:
    """The bytes that the geometry makes of a picture: uint8 of the layout's shape."""
    payload = torch.from_numpy(np.array(picture)).view(-1)
    out = torch.empty(layout.shape, dtype=torch.uint8)
    write_item(payload, Parcel(layout, torch.uint8, stacked=False), out)
    return _as_windows(out, layout)


def _as_windows(pixels: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Pixels with the channel as the second axis: `[n, 3, values of a window or patch]`.

    Raises:
        Mismatch: the shape is not the layout's.
    """
    _check_shape(pixels, layout)
    return pixels.reshape(pixels.shape[0], 3, -1)


def _check_shape(pixels: torch.Tensor, layout: Layout) -> None:
    if tuple(pixels.shape) != layout.shape:
        raise Mismatch(
            f"a picture of {layout.width} x {layout.height} pixels becomes {tuple(pixels.shape)} in stock, "
            f"{layout.shape} by the geometry"
        )


def _read_table(stock: torch.Tensor, ours: torch.Tensor) -> torch.Tensor:
    """Bits of stock's value for each byte and channel, `[3, 256]`."""
    bits = stock.contiguous().view(_BITS[stock.dtype])
    table = torch.zeros((3, 256), dtype=bits.dtype)
    for channel in range(3):
        index = ours[:, channel].reshape(-1).long()
        if index.unique().numel() != 256:
            raise Mismatch("the sample picture does not hold every value after the resize")
        table[channel][index] = bits[:, channel].reshape(-1)
    return table


def _check(
    pictures: list[Image.Image],
    stock: Mapping[str, Any],
    geometry: Geometry,
    outputs: Mapping[str, str],
    table: torch.Tensor,
) -> None:
    layouts = [geometry.layout(*picture.size) for picture in pictures]
    for name, what in outputs.items():
        found = stock.get(name)
        if not isinstance(found, torch.Tensor):
            raise Mismatch(f"stock's output has no tensor {name}")
        if what == "pixels":
            lengths = [layout.shape[0] for layout in layouts]
            if found.shape[0] != sum(lengths):
                raise Mismatch(f"stock makes {found.shape[0]} rows of {name}, the geometry {sum(lengths)}")
            for picture, layout, part in zip(pictures, layouts, found.split(lengths), strict=True):
                _check_pixels(picture, layout, part, table)
        else:
            expected = _expected(what, layouts)
            if found.dtype != expected.dtype or not torch.equal(found, expected):
                raise Mismatch(f"stock's {name} is not the {what} of the geometry")


def _check_pixels(picture: Image.Image, layout: Layout, stock: torch.Tensor, table: torch.Tensor) -> None:
    windows = _as_windows(stock, layout)
    ours = _bytes_of(picture, layout)
    bits = windows.contiguous().view(table.dtype)
    for channel in range(3):
        rebuilt = table[channel][ours[:, channel].int()]
        wrong = int((rebuilt != bits[:, channel]).sum())
        if wrong:
            raise Mismatch(
                f"{wrong} of {rebuilt.numel()} values differ in channel {channel} of a picture of "
                f"{layout.width} x {layout.height} pixels"
            )


def _expected(what: str, layouts: list[Layout]) -> torch.Tensor:
    if what == "tile-count":
        return torch.tensor([len(layout.windows) for layout in layouts])
    if what == "mask":
        return torch.ones(
            (sum(len(layout.windows) for layout in layouts), *layouts[0].window), dtype=torch.int64
        )
    if what == "grid-thw":
        cells = [layout.patches.patch if layout.patches else 1 for layout in layouts]
        grids = [
            [1, layout.window[0] // cell, layout.window[1] // cell]
            for layout, cell in zip(layouts, cells, strict=True)
        ]
        return torch.tensor(grids)
    raise Mismatch(f"an output of kind {what!r} is not known")


def _constants(runs: list[Mapping[str, Any]], outputs: Mapping[str, str]) -> dict[str, torch.Tensor]:
    constants = {}
    first, *others = runs
    for name, value in first.items():
        if name in outputs:
            continue
        same = isinstance(value, torch.Tensor) and all(
            isinstance(run.get(name), torch.Tensor) and torch.equal(value, run[name]) for run in others
        )
        if not same:
            raise Mismatch(f"stock's output {name} is not in the spec and differs between pictures")
        constants[name] = value
    return constants
