"""The geometries of image processors: from a picture's size to its layout.

Each family is one function of the picture's width and height and of the family's parameters, which a model's
spec names. The arithmetic follows the stock processors number for number (float division and rounding
included), because one tile more or less changes the prompt. A size that a family does not cover raises
`Unsupported`, and the stock processor then does the work, or reports the error, as it always did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from .layout import Layout, Patches, Stage, Window
from .resample import Filter, Library


class Unsupported(Exception):
    """This picture, or these parameters, are left to the stock processor."""


Family = Callable[..., Layout]


def _layout(
    width: int,
    height: int,
    library: Library,
    resample: Filter,
    stages: list[Stage],
    windows: list[Window],
    window: tuple[int, int],
    patches: Patches | None = None,
) -> Layout:
    return Layout(width, height, library, resample, tuple(stages), tuple(windows), window, patches)


def _grid(source: int, width: int, height: int, tile: int) -> list[Window]:
    """Windows of a picture cut into tiles, row by row; a remainder at the right or bottom is not read."""
    return [
        Window(source, y, x)
        for y in range(0, height - tile + 1, tile)
        for x in range(0, width - tile + 1, tile)
    ]


@lru_cache(maxsize=64)
def _tile_ratios(least: int, most: int) -> tuple[tuple[int, int], ...]:
    """(columns, rows) of every grid of `least` to `most` tiles, by the number of tiles.

    The order among grids of equal number decides ties between aspect ratios, and stock takes it from the
    iteration order of a set; so the set is filled in the same order here.
    """
    grids = set()
    for bound in range(least, most + 1):
        for columns in range(1, bound + 1):
            for rows in range(1, bound + 1):
                if least <= columns * rows <= most:
                    grids.add((columns, rows))
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def tile_grid(
    width: int,
    height: int,
    *,
    library: Library,
    resample: Filter,
    tile: int,
    min_tiles: int,
    max_tiles: int,
    dynamic: bool,
    thumbnail: bool,
) -> Layout:
    """The grid of square tiles nearest in aspect ratio, then a thumbnail (arXiv 2404.16821, section 3)."""
    least, most = (min_tiles, max_tiles) if dynamic else (1, 1)
    aspect, area = width / height, width * height
    best, best_distance = (1, 1), float("inf")
    for columns, rows in _tile_ratios(least, most):
        distance = abs(aspect - columns / rows)
        closer = distance < best_distance
        if closer or (distance == best_distance and area > 0.5 * tile * tile * columns * rows):
            best, best_distance = (columns, rows), min(distance, best_distance)
    columns, rows = best
    stages = [Stage(0, tile * columns, tile * rows)]
    windows = _grid(1, tile * columns, tile * rows, tile)
    if thumbnail and len(windows) != 1:
        stages.append(Stage(0, tile, tile))
        windows.append(Window(2, 0, 0))
    return _layout(width, height, library, resample, stages, windows, (tile, tile))


def _even(number: int) -> int:
    return number + number % 2


def split_global(
    width: int,
    height: int,
    *,
    library: Library,
    resample: Filter,
    longest_edge: int,
    tile: int,
    limit: int,
    split: bool,
    resize: bool,
    single_pass: bool = False,
) -> Layout:
    """Longest edge, then up to a multiple of the tile, then tiles row by row and the whole picture last.

    `limit` bounds the first resize. With `single_pass` each picture is resized from the original in one step;
    the sizes are the same, the pixels are not.
    """
    if not resize or not isinstance(longest_edge, int) or not isinstance(tile, int):
        raise Unsupported("a split without a resize to a longest edge")
    aspect = width / height
    if width >= height:
        first_w = longest_edge
        first_h = _even(int(first_w / aspect))
    else:
        first_h = longest_edge
        first_w = _even(int(first_h * aspect))
    first_w, first_h = max(first_w, 1), max(first_h, 1)
    aspect = first_w / first_h
    if first_w >= first_h and first_w > limit:
        first_w, first_h = limit, int(limit / aspect)
    elif first_h > first_w and first_h > limit:
        first_w, first_h = int(limit * aspect), limit
    first_w, first_h = max(first_w, 1), max(first_h, 1)
    first = Stage(0, first_w, first_h)
    if not split:
        stages = [Stage(0, tile, tile)] if single_pass else [first, Stage(1, tile, tile)]
        return _layout(width, height, library, resample, stages, [Window(len(stages), 0, 0)], (tile, tile))

    aspect = first_w / first_h
    if first_w >= first_h:
        full_w = math.ceil(first_w / tile) * tile
        full_h = math.ceil(int(full_w / aspect) / tile) * tile
    else:
        full_h = math.ceil(first_h / tile) * tile
        full_w = math.ceil(int(full_h * aspect) / tile) * tile
    if _promised_grid(first_w, first_h, tile) != (full_w // tile, full_h // tile):
        raise Unsupported("the processor promises another number of tiles than it cuts")
    stages = [Stage(0, full_w, full_h)] if single_pass else [first, Stage(1, full_w, full_h)]
    full = len(stages)
    windows = _grid(full, full_w, full_h, tile)
    if len(windows) > 1:
        stages.append(Stage(0 if single_pass else full, tile, tile))
        windows.append(Window(len(stages), 0, 0))
    return _layout(width, height, library, resample, stages, windows, (tile, tile))


def _promised_grid(width: int, height: int, tile: int) -> tuple[int, int]:
    """(columns, rows) that the prompt is written for, counted on the size after the first resize."""
    return math.ceil(width / tile), math.ceil(height / tile)


def _crop_origin(size: int, crop: int) -> int:
    """Where a centre crop begins; below zero where the picture is smaller and was padded first."""
    return -((crop - size) // 2) if crop > size else int((size - crop) / 2.0)


def edge_crop(
    width: int,
    height: int,
    *,
    library: Library,
    resample: Filter,
    shortest_edge: int,
    crop_width: int,
    crop_height: int,
    resize: bool,
    crop: bool,
) -> Layout:
    """Shortest edge to a length, then the centre."""
    if not (resize and crop) or not isinstance(shortest_edge, int):
        raise Unsupported("a centre crop without a resize to a shortest edge")
    if width <= height:
        new_w, new_h = shortest_edge, int(shortest_edge * height / width)
    else:
        new_w, new_h = int(shortest_edge * width / height), shortest_edge
    window = Window(1, _crop_origin(new_h, crop_height), _crop_origin(new_w, crop_width))
    return _layout(
        width, height, library, resample, [Stage(0, new_w, new_h)], [window], (crop_height, crop_width)
    )


def patch_grid(
    width: int,
    height: int,
    *,
    library: Library,
    resample: Filter,
    min_pixels: int,
    max_pixels: int,
    patch: int,
    merge: int,
    repeat: int,
    resize: bool,
) -> Layout:
    """Both edges to multiples of patch x merge, within a budget of pixels, then patches in merged order."""
    if not resize or not min_pixels or not max_pixels:
        raise Unsupported("patches without a resize to a budget of pixels")
    if max(height, width) / min(height, width) > 200:
        raise Unsupported("stock refuses an aspect ratio above 200")
    factor = patch * merge
    new_h, new_w = round(height / factor) * factor, round(width / factor) * factor
    if new_h * new_w > max_pixels:
        shrink = math.sqrt((height * width) / max_pixels)
        new_h = max(factor, math.floor(height / shrink / factor) * factor)
        new_w = max(factor, math.floor(width / shrink / factor) * factor)
    elif new_h * new_w < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        new_h = math.ceil(height * grow / factor) * factor
        new_w = math.ceil(width * grow / factor) * factor
    return _layout(
        width,
        height,
        library,
        resample,
        [Stage(0, new_w, new_h)],
        [Window(1, 0, 0)],
        (new_h, new_w),
        Patches(patch, merge, repeat),
    )


def fixed(
    width: int,
    height: int,
    *,
    library: Library,
    resample: Filter,
    to_width: int,
    to_height: int,
    resize: bool,
) -> Layout:
    """One resize to one size."""
    if not resize or not to_width or not to_height:
        raise Unsupported("a fixed size without a resize")
    return _layout(
        width,
        height,
        library,
        resample,
        [Stage(0, to_width, to_height)],
        [Window(1, 0, 0)],
        (to_height, to_width),
    )


FAMILIES: Mapping[str, Family] = {
    "tile-grid": tile_grid,
    "split-global": split_global,
    "edge-crop": edge_crop,
    "patch-grid": patch_grid,
    "fixed": fixed,
}


class Geometry:
    """A family with its parameters filled in; `layout(width, height)` is cached, sizes in pixels.

    Raises:
        Unsupported: the family is unknown, or does not take these parameters.
    """

    def __init__(self, family: str, parameters: Mapping[str, Any]) -> None:
        if family not in FAMILIES:
            raise Unsupported(f"the image geometry {family!r} is not one the runtime knows")
        self._family = FAMILIES[family]
        self._parameters = dict(parameters)
        self.layout = lru_cache(maxsize=4096)(self._make)

    def _make(self, width: int, height: int) -> Layout:
        try:
            layout = self._family(width, height, **self._parameters)
        except (TypeError, ZeroDivisionError) as error:
            raise Unsupported(f"parameters that do not fit the geometry: {error}") from error
        if min(layout.shape) < 1 or any(min(stage.width, stage.height) < 1 for stage in layout.stages):
            raise Unsupported(f"a picture of {width} x {height} pixels vanishes")
        return layout
