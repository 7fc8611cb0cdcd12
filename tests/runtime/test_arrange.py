"""One picture, three ways to its tensor: compiled kernels, torch integers, the libraries themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.runtime.test_geometry import PARAMETERS
from vlmopt.runtime import arrange
from vlmopt.runtime.geometry import Geometry, Unsupported
from vlmopt.runtime.layout import Layout, Parcel, Patches, Stage, Window

torch = pytest.importorskip("torch")

SMALL = {
    "tile-grid": {"tile": 28, "max_tiles": 6},
    "split-global": {"longest_edge": 96, "tile": 32},
    "edge-crop": {"shortest_edge": 40, "crop_width": 36, "crop_height": 44},
    "patch-grid": {"min_pixels": 784, "max_pixels": 6400, "patch": 4},
    "fixed": {"to_width": 48, "to_height": 37},
}


def picture_of(width, height, seed=0):
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return torch.from_numpy(noise)


def table_of(dtype):
    """Distinct values for each byte and channel, so that a wrong byte or channel shows."""
    return torch.arange(768, dtype=torch.float32).view(3, 256).mul(0.25).sub(90).to(dtype)


def made(layout, picture, dtype, *, native=False):
    parcel = Parcel(layout, dtype, stacked=False, native=native)
    head = [] if dtype == torch.uint8 else [table_of(dtype).view(-1).view(torch.uint8)]
    payload = torch.cat([*head, picture.reshape(-1)])
    out = torch.empty(layout.shape, dtype=dtype)
    arrange.write_item(payload, parcel, out)
    return out


def by_torch(layout, picture, dtype):
    """The path of a device, on this one."""
    out = torch.empty(layout.shape, dtype=dtype)
    windows = out if layout.patches is None else out.new_empty((1, 3, *layout.window))
    table = None if dtype == torch.uint8 else table_of(dtype)
    arrange._write_windows(picture, layout, table, windows, native=False)
    if layout.patches is not None:
        arrange._write_patches(windows[0], layout.patches, out)
    return out


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(PARAMETERS)),
    st.integers(1, 160),
    st.integers(1, 160),
    st.sampled_from([torch.uint8, torch.bfloat16, torch.float16, torch.float32]),
)
def test_all_ways_give_the_same_bytes(family, width, height, dtype):
    try:
        layout = Geometry(family, {**PARAMETERS[family], **SMALL[family]}).layout(width, height)
    except Unsupported:
        return
    picture = picture_of(width, height)
    compiled = made(layout, picture, dtype)
    assert torch.equal(compiled, made(layout, picture, dtype, native=True))
    assert torch.equal(compiled, by_torch(layout, picture, dtype))
    for native in (False, True):
        cut = torch.from_numpy(arrange.cut_windows(picture.numpy(), layout, native=native))
        assert torch.equal(compiled, made(layout.cut(), cut, dtype))


def test_a_tile_grid_is_the_librarys_own_picture():
    layout = Geometry("tile-grid", {**PARAMETERS["tile-grid"], **SMALL["tile-grid"]}).layout(90, 60)
    picture = picture_of(90, 60)
    columns, rows = layout.size_of(1)[0] // 28, layout.size_of(1)[1] // 28
    image = Image.fromarray(picture.numpy())
    whole = np.asarray(image.resize(layout.size_of(1), Image.Resampling.BICUBIC))
    tiles = [whole[28 * y : 28 * y + 28, 28 * x : 28 * x + 28] for y in range(rows) for x in range(columns)]
    tiles.append(np.asarray(image.resize((28, 28), Image.Resampling.BICUBIC)))
    expected = torch.from_numpy(np.stack(tiles)).permute(0, 3, 1, 2)
    assert torch.equal(made(layout, picture, torch.uint8), expected)


def test_pixels_outside_a_picture_are_byte_zero():
    layout = Layout(
        4, 3, "pillow", "bicubic", (Stage(0, 4, 3),), (Window(1, -1, -2), Window(1, 2, 3)), (5, 6)
    )
    picture = picture_of(4, 3)
    expected = torch.zeros(2, 3, 5, 6, dtype=torch.uint8)
    expected[0, :, 1:4, 2:6] = picture.permute(2, 0, 1)
    expected[1, :, :1, :1] = picture.permute(2, 0, 1)[:, 2:, 3:]
    assert torch.equal(made(layout, picture, torch.uint8), expected)
    assert torch.equal(by_torch(layout, picture, torch.uint8), expected)
    cut = torch.from_numpy(arrange.cut_windows(picture.numpy(), layout, native=True))
    assert torch.equal(made(layout.cut(), cut, torch.uint8), expected)


def test_patches_come_in_merged_order_and_repeat_their_frame():
    layout = Layout(8, 8, "pillow", "bicubic", (), (Window(0, 0, 0),), (8, 8), Patches(2, 2, 2))
    picture = torch.arange(192, dtype=torch.uint8).view(8, 8, 3)
    rows = made(layout, picture, torch.uint8)
    assert rows.shape == (16, 3 * 2 * 2 * 2)
    corners = [(0, 0), (0, 2), (2, 0), (2, 2), (0, 4), (0, 6)]
    for row, (y, x) in zip(rows, corners, strict=False):
        patch = picture[y : y + 2, x : x + 2].permute(2, 0, 1)
        assert torch.equal(row.view(3, 2, 2, 2), patch.unsqueeze(1).expand(3, 2, 2, 2))


@settings(deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([torch.uint8, torch.bfloat16, torch.float32]),
)
def test_compiled_patches_are_torchs(patch, merge, repeat, rows, columns, dtype):
    pytest.importorskip("numba")
    height, width = patch * merge * rows, patch * merge * columns
    picture = torch.arange(3 * height * width).remainder(251).to(dtype).view(3, height, width)
    shape = (merge * merge * rows * columns, 3 * repeat * patch * patch)
    compiled, expected = torch.zeros(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
    arrange._write_patches_compiled(picture, Patches(patch, merge, repeat), compiled)
    arrange._write_patches(picture, Patches(patch, merge, repeat), expected)
    assert torch.equal(compiled, expected)
