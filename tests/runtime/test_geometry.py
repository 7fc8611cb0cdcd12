"""The geometries against the stock processors' own arithmetic."""

import importlib
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.runtime.geometry import FAMILIES, Geometry, Unsupported
from vlmopt.runtime.layout import Parcel, decode

torch = pytest.importorskip("torch")

sides = st.one_of(st.integers(1, 64), st.integers(1, 4096), st.integers(1, 20000))
sizes = st.tuples(sides, sides)

PARAMETERS = {
    "tile-grid": {
        "library": "pillow",
        "resample": "bicubic",
        "tile": 448,
        "min_tiles": 1,
        "max_tiles": 12,
        "dynamic": True,
        "thumbnail": True,
    },
    "split-global": {
        "library": "torchvision",
        "resample": "lanczos",
        "longest_edge": 2048,
        "tile": 512,
        "limit": 4096,
        "split": True,
        "resize": True,
    },
    "edge-crop": {
        "library": "torchvision",
        "resample": "bicubic",
        "shortest_edge": 336,
        "crop_width": 336,
        "crop_height": 336,
        "resize": True,
        "crop": True,
    },
    "patch-grid": {
        "library": "torchvision",
        "resample": "bicubic",
        "min_pixels": 3136,
        "max_pixels": 12845056,
        "patch": 14,
        "merge": 2,
        "repeat": 2,
        "resize": True,
    },
    "fixed": {
        "library": "torchvision",
        "resample": "bilinear",
        "to_width": 384,
        "to_height": 320,
        "resize": True,
    },
}


def stock_of(family):
    """What stock's module of this family offers, under our names."""
    names = yaml.safe_load(Path(__file__).with_name("stock_geometry.yaml").read_text())[family]
    pytest.importorskip("transformers")
    module = importlib.import_module(names.pop("module"))
    return SimpleNamespace(**{ours: getattr(module, theirs) for ours, theirs in names.items()})


def layout_of(family, size, **changed):
    return Geometry(family, {**PARAMETERS[family], **changed}).layout(*size)


def test_every_family_is_tested():
    assert set(PARAMETERS) == set(FAMILIES)


@given(st.sampled_from(sorted(PARAMETERS)), sizes, st.booleans(), st.booleans())
def test_a_plan_says_the_whole_layout(family, size, stacked, native):
    try:
        layout = layout_of(family, size)
    except Unsupported:
        return
    for one in (layout, layout.cut()):
        for dtype in (torch.uint8, torch.bfloat16, torch.float32):
            parcel = Parcel(one, dtype, stacked, native)
            assert decode(parcel.encode()) == parcel
    assert layout.cut().shape == layout.shape
    assert layout.cut().raw_bytes == layout.window_bytes


@given(st.sampled_from(sorted(PARAMETERS)), sizes)
def test_windows_come_in_the_order_of_their_pictures(family, size):
    try:
        layout = layout_of(family, size)
    except Unsupported:
        return
    sources = [window.source for window in layout.windows]
    assert sources == sorted(sources)
    assert all(stage.source <= at for at, stage in enumerate(layout.stages))


def test_a_plan_of_another_version_is_refused():
    plan = Parcel(layout_of("fixed", (3, 4)), torch.uint8, False).encode()
    plan[0] += 1
    with pytest.raises(ValueError, match="version"):
        decode(plan)


@pytest.mark.engine
@given(sizes, st.integers(1, 3), st.integers(1, 12), st.booleans(), st.booleans())
def test_tile_grid_is_stocks(size, least, more, dynamic, thumbnail):
    stock = stock_of("tile-grid")
    width, height = size
    most = least + more
    low, high = stock.bounds(
        min_dynamic_patch=least, max_dynamic_patch=most, dynamic_image_size=dynamic, use_thumbnail=False
    )
    blocks, target_width, target_height = stock.targets(
        orig_width=width,
        orig_height=height,
        target_ratios=stock.ratios(low, high),
        image_size=448,
        use_thumbnail=thumbnail,
    )
    layout = layout_of(
        "tile-grid", size, min_tiles=least, max_tiles=most, dynamic=dynamic, thumbnail=thumbnail
    )
    assert layout.size_of(1) == (target_width, target_height)
    assert len(layout.windows) == blocks


@given(sizes, st.sampled_from([(2048, 512), (1456, 364), (512, 512), (100, 512)]))
def test_split_global_is_stocks(size, edges):
    stock = stock_of("split-global")
    longest, tile = edges
    width, height = size
    processor = stock.processor(size={"longest_edge": longest}, max_image_size={"longest_edge": tile})
    promised, rows, columns = processor.get_number_of_image_patches(height, width)
    try:
        layout = layout_of("split-global", size, longest_edge=longest, tile=tile)
    except Unsupported:
        return
    assert len(layout.windows) == max(promised, 1)
    if promised:
        assert layout.size_of(2) == (columns * tile, rows * tile)
    first = stock.first_size(torch.empty(1, height, width, device="meta"), longest)
    assert layout.size_of(1) == (first[1], first[0])


@given(sizes)
def test_edge_crop_is_stocks(size):
    width, height = size
    layout = layout_of("edge-crop", size)
    stock = stock_of("edge-crop").first_size(
        torch.empty(3, height, width, device="meta"),
        size=336,
        default_to_square=False,
        input_data_format="channels_first",
    )
    assert layout.size_of(1) == (stock[1], stock[0])
    (window,) = layout.windows
    assert (window.y, window.x) == (int((stock[0] - 336) / 2.0), int((stock[1] - 336) / 2.0))


@given(sizes, st.sampled_from([(3136, 12845056), (50176, 100352), (1, 10**9)]))
def test_patch_grid_is_stocks(size, pixels):
    width, height = size
    least, most = pixels
    if max(size) / min(size) > 200:
        with pytest.raises(Unsupported):
            layout_of("patch-grid", size, min_pixels=least, max_pixels=most)
        return
    stock = stock_of("patch-grid").size(height, width, factor=28, min_pixels=least, max_pixels=most)
    if 0 in stock:
        with pytest.raises(Unsupported):
            layout_of("patch-grid", size, min_pixels=least, max_pixels=most)
        return
    layout = layout_of("patch-grid", size, min_pixels=least, max_pixels=most)
    assert layout.size_of(1) == (stock[1], stock[0])
    assert layout.shape[0] == math.prod(stock) // 14**2


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        ("split-global", {"resize": False}),
        ("edge-crop", {"crop": False}),
        ("patch-grid", {"max_pixels": None}),
        ("fixed", {"resize": False}),
        ("fixed", {"to_width": 0}),
        ("tile-grid", {"unknown": 1}),
    ],
)
def test_parameters_that_do_not_fit_are_left_to_stock(family, changed):
    with pytest.raises(Unsupported):
        layout_of(family, (640, 480), **changed)


def test_an_unknown_family_is_left_to_stock():
    with pytest.raises(Unsupported, match="unknown"):
        Geometry("unknown", {})
