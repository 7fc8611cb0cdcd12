"""What a picture becomes on its way to the vision tower, in integers alone.

A layout says, for one picture size, which resized pictures are made (stages), which rectangles of them are
cut out (windows), and how the windows are arranged into the tensor that the stock processor would have
produced. Host and device agree on a layout through its `encode`d form, a one-dimensional int64 tensor that
travels with the pixels, so the device needs to know nothing of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

import torch

from .resample import Filter, Library

VERSION = 1
FILTERS: tuple[Filter, ...] = get_args(Filter)
LIBRARIES: tuple[Library, ...] = get_args(Library)
DTYPES = (torch.uint8, torch.bfloat16, torch.float16, torch.float32)


@dataclass(frozen=True)
class Stage:
    """A resized picture: `source` is 0 for the original and k for the k-th stage; sizes in pixels."""

    source: int
    width: int
    height: int


@dataclass(frozen=True)
class Window:
    """A rectangle of the layout's window size whose top left corner is (y, x) of picture `source`.

    It may stick out of the picture; those pixels are byte 0, which is what padding before normalising gives.
    """

    source: int
    y: int
    x: int


@dataclass(frozen=True)
class Patches:
    """Patches in the order of a merged grid: `patch` and `merge` in pixels and patches, `repeat` frames."""

    patch: int
    merge: int
    repeat: int


@dataclass(frozen=True)
class Layout:
    """One picture's way. `width` and `height` are the original's; `window` is (height, width) in pixels.

    The tensor it stands for is `[len(windows), 3, *window]`, or with `patches` the two-dimensional
    `[grid_h * grid_w, 3 * repeat * patch * patch]` of its one window.
    """

    width: int
    height: int
    library: Library
    resample: Filter
    stages: tuple[Stage, ...]
    windows: tuple[Window, ...]
    window: tuple[int, int]
    patches: Patches | None = None

    @property
    def raw_bytes(self) -> int:
        """Bytes of the original picture, three channels."""
        return 3 * self.width * self.height

    @property
    def window_bytes(self) -> int:
        """Bytes of all windows, three channels, one byte a value."""
        return 3 * len(self.windows) * self.window[0] * self.window[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor that the stock processor makes of this picture."""
        height, width = self.window
        if self.patches is None:
            return (len(self.windows), 3, height, width)
        patch = self.patches
        cells = (height // patch.patch) * (width // patch.patch)
        return (cells, 3 * patch.repeat * patch.patch * patch.patch)

    def cut(self) -> Layout:
        """The layout of the picture that `windows` make when they lie below each other, each already cut."""
        height, width = self.window
        windows = tuple(Window(0, at * height, 0) for at in range(len(self.windows)))
        return replace(self, width=width, height=height * len(windows), stages=(), windows=windows)

    def size_of(self, source: int) -> tuple[int, int]:
        """(width, height) of the original (0) or of a stage (1, 2, ...)."""
        if source == 0:
            return self.width, self.height
        stage = self.stages[source - 1]
        return stage.width, stage.height


@dataclass(frozen=True)
class Parcel:
    """How to read a payload: first the table, `[3, 256]` of `dtype` (none for uint8), then `[H, W, 3]`.

    The picture is the one that `layout` begins with. `stacked` tells a field whose items are stacked along
    a new axis from one whose items are joined along the first; `native` asks for the libraries' own resize
    on a CPU.
    """

    layout: Layout
    dtype: torch.dtype
    stacked: bool
    native: bool = False

    @property
    def table_bytes(self) -> int:
        """Bytes of the table at the head of the payload."""
        return 0 if self.dtype == torch.uint8 else 3 * 256 * self.dtype.itemsize

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of this picture's share of the batch; a stacked field drops the leading 1."""
        return self.layout.shape[1:] if self.stacked else self.layout.shape

    def encode(self) -> torch.Tensor:
        """The parcel as int64 `[n]`, readable by `decode`."""
        layout = self.layout
        patches = layout.patches or Patches(0, 0, 0)
        numbers = [
            VERSION,
            DTYPES.index(self.dtype),
            self.stacked,
            self.native,
            layout.width,
            layout.height,
            LIBRARIES.index(layout.library),
            FILTERS.index(layout.resample),
            *layout.window,
            patches.patch,
            patches.merge,
            patches.repeat,
            len(layout.stages),
        ]
        for stage in layout.stages:
            numbers += [stage.source, stage.width, stage.height]
        for window in layout.windows:
            numbers += [window.source, window.y, window.x]
        return torch.tensor(numbers, dtype=torch.int64)


_HEAD = 14


def decode(plan: torch.Tensor) -> Parcel:
    """The inverse of `Parcel.encode`.

    Raises:
        ValueError: the plan was written by another version of the runtime.
    """
    return _decode(tuple(plan.tolist()))


@lru_cache(maxsize=512)
def _decode(numbers: tuple[int, ...]) -> Parcel:
    if not numbers or numbers[0] != VERSION:
        raise ValueError(f"an image plan of version {numbers[:1]} reached a runtime of version {VERSION}")
    _, dtype, stacked, native, width, height, library, resample, win_h, win_w, *rest = numbers[:_HEAD]
    patch, merge, repeat, count = rest
    triples = [numbers[at : at + 3] for at in range(_HEAD, len(numbers), 3)]
    layout = Layout(
        width=width,
        height=height,
        library=LIBRARIES[library],
        resample=FILTERS[resample],
        stages=tuple(Stage(*triple) for triple in triples[:count]),
        windows=tuple(Window(*triple) for triple in triples[count:]),
        window=(win_h, win_w),
        patches=Patches(patch, merge, repeat) if patch else None,
    )
    return Parcel(layout, DTYPES[dtype], bool(stacked), bool(native))
