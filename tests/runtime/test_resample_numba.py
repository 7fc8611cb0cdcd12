"""The compiled kernels against the libraries, windows against slices of the library's result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from vlmopt.runtime import resample_numba
from vlmopt.runtime.resample import FILTERS, resize, resize_native
from vlmopt.runtime.resample_numba import (
    Planar,
    pack_windows,
    resize_hwc,
    resize_planar,
    resize_windows,
    write_patches,
)

PAIRS = [(filter, library) for library in FILTERS for filter in FILTERS[library]]
pairs = st.sampled_from(PAIRS)
sizes = st.integers(1, 300)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True, params=["numba", "libraries"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs with the kernels, and as on a machine without numba."""
    if request.param == "libraries":
        monkeypatch.setattr(resample_numba, "HAVE_NUMBA", False)
    else:
        assert resample_numba.HAVE_NUMBA
    return str(request.param)


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return np.where(pixels > 127, 255, 0).astype(np.uint8) if seed % 2 else pixels


def native(image: np.ndarray, width: int, height: int, filter: str, library: str) -> np.ndarray:
    return resize_native(torch.from_numpy(image), width, height, filter, library).numpy()


def cut(
    picture: np.ndarray, places: list[tuple[int, int]], size: tuple[int, int], table: Any, fill: int
) -> np.ndarray:
    """The windows of a picture, by padding it all around and slicing."""
    margin = 400
    padded = np.pad(picture, ((margin, margin), (margin, margin), (0, 0)), constant_values=fill)
    slices = [padded[margin + y : margin + y + size[0], margin + x : margin + x + size[1]] for y, x in places]
    windows = np.stack(slices).transpose(0, 3, 1, 2)
    if table is None:
        return windows
    return np.stack([table[c][windows[:, c]] for c in range(3)], axis=1)


tables = st.sampled_from([None, np.uint8, np.uint16, np.uint32, np.float32])


def table_of(dtype: Any, seed: int) -> Any:
    if dtype is None:
        return None
    values = np.random.default_rng(seed).permutation(3 * 256).reshape(3, 256)
    return values.astype(dtype) if dtype != np.float32 else (values / 7).astype(np.float32)


@settings(max_examples=100, deadline=None)
@given(sizes, sizes, sizes, sizes, pairs, seeds)
@example(83, 67, 60, 92, ("bilinear", "pillow"), 0)
@example(300, 1, 1, 300, ("lanczos", "torchvision"), 1)
@example(1, 1, 1, 1, ("lanczos", "torchvision"), 0)
@example(2, 3, 2, 300, ("bicubic", "pillow"), 1)
def test_a_picture_equals_the_library(
    height: int, width: int, to_height: int, to_width: int, pair: tuple[str, str], seed: int
) -> None:
    image = noise(height, width, seed)
    result = resize_hwc(image, to_width, to_height, *pair)
    assert np.array_equal(result, native(image, to_width, to_height, *pair))
    planar = resize_planar(Planar.of(image), to_width, to_height, *pair)
    assert np.array_equal(result, planar.interleaved())
    assert np.array_equal(result, resize(torch.from_numpy(image), to_width, to_height, *pair).numpy())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 120), min_size=4, max_size=4),
    pairs,
    seeds,
    st.lists(st.tuples(st.integers(-130, 130), st.integers(-130, 130)), max_size=4),
    st.tuples(st.integers(1, 90), st.integers(1, 90)),
    tables,
    st.integers(0, 255),
)
def test_windows_are_slices_of_the_librarys_picture(
    size: list[int],
    pair: tuple[str, str],
    seed: int,
    places: list[tuple[int, int]],
    window: tuple[int, int],
    dtype: Any,
    fill: int,
) -> None:
    height, width, to_height, to_width = size
    places = [*places, (0, 0)]
    image, table = noise(height, width, seed), table_of(dtype, seed)
    resized = native(image, to_width, to_height, *pair)
    expected = cut(resized, places, window, table, fill)
    out = np.zeros(expected.shape, expected.dtype)
    resize_windows(image, to_width, to_height, *pair, places, *window, table, out, fill)
    assert np.array_equal(out, expected)
    out[:] = 0
    resize_windows(Planar.of(image), to_width, to_height, *pair, places, *window, table, out, fill)
    assert np.array_equal(out, expected)
    out[:] = 0
    pack_windows(resized, places, *window, table, out, fill)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("filter", "library", "size", "tile"),
    [("bicubic", "pillow", (1344, 1792), 448), ("lanczos", "torchvision", (1536, 2048), 512)],
)
def test_the_tile_grids_of_a_photograph(
    filter: str, library: str, size: tuple[int, int], tile: int, seed: int
) -> None:
    image, table = noise(480, 640, seed), table_of(np.uint16, 3)
    places = [(y, x) for y in range(0, size[0], tile) for x in range(0, size[1], tile)]
    out = np.empty((len(places), 3, tile, tile), np.uint16)
    resize_windows(image, size[1], size[0], filter, library, places, tile, tile, table, out)
    assert np.array_equal(
        out, cut(native(image, size[1], size[0], filter, library), places, (tile, tile), table, 0)
    )


@pytest.mark.parametrize(("filter", "library"), PAIRS)
def test_long_axes_equal_the_library(filter: str, library: str) -> None:
    for size in [(2, 4096, 2, 449), (4096, 2, 700, 3), (3, 20000, 4, 448), (10, 448, 10, 3000)]:
        height, width, to_height, to_width = size
        image = noise(height, width, seed=height)
        expected = native(image, to_width, to_height, filter, library)
        assert np.array_equal(resize_hwc(image, to_width, to_height, filter, library), expected), size


@pytest.mark.slow
@pytest.mark.parametrize(("filter", "library"), PAIRS)
def test_large_pictures_equal_the_library(filter: str, library: str) -> None:
    for size in [
        (3000, 4096, 448, 448),
        (20000, 10, 448, 448),
        (10, 20000, 448, 1344),
        (448, 448, 4096, 4096),
    ]:
        height, width, to_height, to_width = size
        image = noise(height, width, seed=1)
        expected = native(image, to_width, to_height, filter, library)
        assert np.array_equal(resize_hwc(image, to_width, to_height, filter, library), expected), size


def test_a_chain_stays_planar() -> None:
    image = noise(48, 64, 1)
    first = resize_planar(image, 200, 150, "lanczos", "torchvision")
    assert resize_planar(first, 200, 150, "lanczos", "torchvision") is first
    second = resize_planar(first, 50, 40, "lanczos", "torchvision")
    expected = native(native(image, 200, 150, "lanczos", "torchvision"), 50, 40, "lanczos", "torchvision")
    assert np.array_equal(second.interleaved(), expected)
    assert (second.height, second.width) == (40, 50)
    out = np.empty((1, 3, 40, 50), np.uint8)
    pack_windows(second, [(0, 0)], 40, 50, None, out)
    assert np.array_equal(out[0], expected.transpose(2, 0, 1))


def test_pillows_read_only_and_strided_pictures_are_taken() -> None:
    image = noise(30, 40, 2)
    expected = native(image, 25, 35, "bicubic", "pillow")
    borrowed = np.frombuffer(Image.fromarray(image).tobytes(), np.uint8).reshape(30, 40, 3)
    assert not borrowed.flags.writeable
    strided = np.zeros((30, 80, 3), np.uint8)[:, ::2]
    strided[:] = image
    for view in (borrowed, strided):
        assert np.array_equal(resize_hwc(view, 25, 35, "bicubic", "pillow"), expected)


def test_no_windows_write_nothing() -> None:
    resize_windows(noise(5, 5), 8, 8, "bicubic", "pillow", [], 4, 4, None, np.empty((0, 3, 4, 4), np.uint8))


def test_what_does_not_fit_is_refused() -> None:
    image, table = noise(8, 8), np.zeros((3, 256), np.uint16)
    out = np.empty((1, 3, 4, 4), np.uint16)

    def windows(
        image: Any = image, table: Any = table, out: Any = out, fill: int = 0, filter: str = "bicubic"
    ) -> None:
        resize_windows(image, 6, 6, filter, "torchvision", [(0, 0)], 4, 4, table, out, fill)

    windows()
    for message, wrong in [
        ("picture", {"image": image[..., :2]}),
        ("picture", {"image": image.astype(np.int32)}),
        ("picture", {"image": image[:0]}),
        ("table", {"table": table[:2]}),
        ("table", {"table": table.astype(np.int64)}),
        ("output", {"out": out.astype(np.uint8)}),
        ("output", {"out": np.empty((2, 3, 4, 4), np.uint16)}),
        ("output", {"out": out.transpose(0, 1, 3, 2)}),
        ("fill", {"fill": 256}),
        ("box", {"filter": "box"}),
    ]:
        with pytest.raises(ValueError, match=message):
            windows(**wrong)
    for size in ((8, 8), (0, 8), (8, -1)):
        with pytest.raises(ValueError, match="box" if size == (8, 8) else "at least 1"):
            resize_hwc(image, *size, "box" if size == (8, 8) else "bilinear", "torchvision")


def test_patches_that_do_not_fit_are_refused() -> None:
    picture, out = np.zeros((3, 8, 12), np.uint16), np.empty((24, 24), np.uint16)
    write_patches(picture, 2, 2, 2, out)
    for wrong in (
        (picture, 2, 2, 3, out),
        (picture, 4, 2, 2, out),
        (picture[:2], 2, 2, 2, out),
        (picture[:, :, ::-1], 2, 2, 2, out),
        (picture, 2, 2, 2, out.astype(np.uint8)),
        (picture, 2, 2, 2, np.empty((24, 48), np.uint16)[:, ::2]),
        (np.zeros((3, 6, 16), np.uint16), 2, 2, 2, out),
    ):
        with pytest.raises(ValueError, match="patches"):
            write_patches(*wrong)
