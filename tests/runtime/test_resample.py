"""The torch path against the libraries themselves, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

from vlmopt.runtime.resample import (
    FILTERS,
    coefficients,
    filter_name,
    resize,
    resize_native,
    verified,
    vertical_first,
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


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    """Uniform noise, or noise of 0 and 255 alone for odd seeds: that overshoots the most."""
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return torch.from_numpy(np.where(pixels > 127, 255, 0).astype(np.uint8) if seed % 2 else pixels)


def by_library(image: torch.Tensor, width: int, height: int, filter: str, library: str) -> torch.Tensor:
    """The call that transformers' processors make, for one picture [H, W, 3]."""
    if library == "pillow":
        picture = Image.fromarray(image.numpy()).resize((width, height), Image.Resampling[filter.upper()])
        return torch.from_numpy(np.array(picture))
    planes = image.permute(2, 0, 1)
    return functional.resize(
        planes, [height, width], interpolation=InterpolationMode(filter), antialias=True
    ).permute(1, 2, 0)


@settings(max_examples=120, deadline=None)
@given(sizes, sizes, sizes, sizes, pairs, seeds)
@example(83, 67, 60, 92, ("bilinear", "pillow"), 0)  # height shrinks, width grows: Pillow 13 turns the passes
@example(300, 1, 1, 300, ("lanczos", "torchvision"), 1)
@example(1, 1, 1, 1, ("lanczos", "torchvision"), 0)
@example(7, 300, 7, 2, ("hamming", "pillow"), 1)
def test_one_picture_equals_the_library(
    height: int, width: int, to_height: int, to_width: int, pair: tuple[str, str], seed: int
) -> None:
    image = noise(height, width, 3, seed=seed)
    expected = by_library(image, to_width, to_height, *pair)
    assert torch.equal(resize(image, to_width, to_height, *pair), expected)
    assert torch.equal(resize_native(image, to_width, to_height, *pair), expected)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 4), st.lists(st.integers(1, 60), min_size=4, max_size=4), pairs, seeds
)
def test_a_batch_is_its_pictures_and_channels_are_independent(
    n: int, channels: int, size: list[int], pair: tuple[str, str], seed: int
) -> None:
    height, width, to_height, to_width = size
    images = noise(n, height, width, channels, seed=seed)
    result = resize(images, to_width, to_height, *pair)
    assert result.shape == (n, to_height, to_width, channels)
    assert torch.equal(result, resize_native(images, to_width, to_height, *pair))
    for i in range(n):
        for c in range(channels):
            one = images[i, ..., c : c + 1].expand(-1, -1, 3).contiguous()
            assert torch.equal(result[i, ..., c], by_library(one, to_width, to_height, *pair)[..., 0])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.integers(1, 60), min_size=4, max_size=4).filter(lambda size: size[2:] != [1, 1]),
    st.sampled_from(FILTERS["torchvision"]),
    seeds,
)
def test_torchvision_does_not_depend_on_the_memory_format(
    channels: int, size: list[int], filter: str, seed: int
) -> None:
    height, width, to_height, to_width = size
    images = noise(2, channels, height, width, seed=seed)
    mode = InterpolationMode(filter)
    plain = functional.resize(images, [to_height, to_width], interpolation=mode, antialias=True)
    last = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(
        functional.resize(last, [to_height, to_width], interpolation=mode, antialias=True), plain
    )
    ours = resize(images.permute(0, 2, 3, 1), to_width, to_height, filter, "torchvision")
    assert torch.equal(ours.permute(0, 3, 1, 2), plain)


@pytest.mark.parametrize(("filter", "library"), PAIRS)
def test_long_axes_equal_the_library(filter: str, library: str) -> None:
    for size in [(2, 4096, 2, 449), (4096, 2, 700, 3), (3, 20000, 4, 448), (10, 448, 10, 3000)]:
        height, width, to_height, to_width = size
        image = noise(height, width, 3, seed=height)
        expected = by_library(image, to_width, to_height, filter, library)
        assert torch.equal(resize(image, to_width, to_height, filter, library), expected), size


@pytest.mark.slow
@pytest.mark.parametrize(("filter", "library"), PAIRS)
def test_large_pictures_equal_the_library(filter: str, library: str) -> None:
    for size in [
        (480, 640, 1344, 1792),
        (3000, 4096, 448, 448),
        (20000, 10, 448, 448),
        (10, 20000, 448, 1344),
    ]:
        height, width, to_height, to_width = size
        image = noise(height, width, 3, seed=1)
        expected = by_library(image, to_width, to_height, filter, library)
        assert torch.equal(resize(image, to_width, to_height, filter, library), expected), size


def exact_taps(n_in: int, n_out: int, i: int, support: Fraction) -> range:
    """Input pixels whose centre lies inside the filter around output i, in rational numbers."""
    scale = Fraction(n_in, n_out)
    reach, centre = support * max(scale, Fraction(1)), (i + Fraction(1, 2)) * scale
    inside = [j for j in range(n_in) if abs(j + Fraction(1, 2) - centre) <= reach]
    return range(inside[0], inside[-1] + 1)


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, pairs)
def test_coefficients_are_normalised_and_inside_the_picture(
    n_in: int, n_out: int, pair: tuple[str, str]
) -> None:
    axis = coefficients(n_in, n_out, *pair)
    support = {"box": Fraction(1, 2), "bicubic": Fraction(2), "lanczos": Fraction(3)}.get(
        pair[0], Fraction(1)
    )
    assert axis.first.dtype == axis.weight.dtype == axis.count.dtype == np.int32
    assert axis.first.shape == axis.count.shape == (n_out,)
    assert axis.weight.shape == (n_out, axis.taps)
    assert axis.first.min() >= 0
    assert (axis.first + axis.taps).max() <= n_in
    assert np.abs(axis.weight.sum(axis=1) - (1 << axis.shift)).max() <= axis.taps
    if pair[1] == "torchvision":
        assert np.abs(axis.weight).max() < 1 << 15
    for i in {0, n_out // 2, n_out - 1}:
        used = np.flatnonzero(axis.weight[i])
        allowed = exact_taps(n_in, n_out, i, support)
        assert axis.count[i] == used[-1] + 1
        assert axis.first[i] + used[0] >= allowed.start
        assert axis.first[i] + used[-1] < allowed.stop


def test_coefficients_are_shared_and_cannot_be_changed() -> None:
    axis = coefficients(10, 7, "bicubic", "pillow")
    assert coefficients(10, 7, "bicubic", "pillow") is axis
    for array in (axis.first, axis.count, axis.weight):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_numpys_sine_is_the_one_of_the_libraries() -> None:
    """The weights use np.sin and np.cos; Pillow and ATen call the C library, as math does."""
    x = np.random.default_rng(0).uniform(-10, 10, 20000)
    assert np.array_equal(np.sin(x), np.array([math.sin(v) for v in x]))
    assert np.array_equal(np.cos(x), np.array([math.cos(v) for v in x]))


def test_many_taps_are_summed_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    from vlmopt.runtime import resample

    image = noise(40, 300, 3, seed=2)
    whole = resize(image, 7, 5, "lanczos", "pillow")
    monkeypatch.setattr(resample, "_STEP_ELEMENTS", 40 * 7 * 3 * 2 + 1)
    assert torch.equal(resize(image, 7, 5, "lanczos", "pillow"), whole)


def test_any_strides() -> None:
    image = noise(50, 40, 3, seed=4)
    expected = resize_native(image, 31, 27, "bicubic", "pillow")
    planes = image.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    wide = torch.zeros(50, 80, 4, dtype=torch.uint8)[:, ::2, :3]
    wide.copy_(image)
    for view in (planes, wide):
        result = resize(view, 31, 27, "bicubic", "pillow")
        assert result.is_contiguous()
        assert torch.equal(result, expected)
        assert torch.equal(resize_native(view, 31, 27, "bicubic", "pillow"), expected)


def test_vertical_first_is_pillows_rule() -> None:
    assert vertical_first(100, 100, 100, 99, "pillow")
    assert not vertical_first(100, 100, 99, 98, "pillow")
    assert vertical_first(100, 100, 99, 97, "pillow")
    assert not vertical_first(100, 100, 50, 100, "pillow")
    assert not vertical_first(100, 100, 200, 200, "pillow")
    assert not vertical_first(100, 100, 100, 10, "torchvision")


@pytest.mark.parametrize(("filter", "library"), PAIRS)
def test_this_process_is_verified(filter: str, library: str) -> None:
    assert verified(filter, library)


def test_a_library_that_rounds_otherwise_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    from vlmopt.runtime import resample

    real = resample.resize_native

    def off_by_one(*arguments: object) -> torch.Tensor:
        result = real(*arguments)
        result[0, 0, 0] ^= 1
        return result

    monkeypatch.setattr(resample, "resize_native", off_by_one)
    verified.cache_clear()
    try:
        assert not verified("bicubic", "pillow")
    finally:
        verified.cache_clear()


def test_filter_names() -> None:
    assert [filter_name(n) for n in (1, 2, 3, 4, 5)] == ["lanczos", "bilinear", "bicubic", "box", "hamming"]
    assert filter_name(Image.Resampling.BICUBIC) == "bicubic"
    assert filter_name("LANCZOS") == "lanczos"
    for wrong in (0, 6, "nearest", "area"):
        with pytest.raises(ValueError, match="no resampling filter"):
            filter_name(wrong)


def test_what_cannot_be_resized_is_refused() -> None:
    image = noise(4, 4, 3)
    with pytest.raises(ValueError, match="box"):
        resize(image, 2, 2, "box", "torchvision")
    with pytest.raises(ValueError, match="opencv"):
        resize(image, 2, 2, "bicubic", "opencv")
    with pytest.raises(ValueError, match="at least 1"):
        resize(image, 0, 2, "bicubic", "pillow")
    with pytest.raises(ValueError, match="uint8"):
        resize(image.float(), 2, 2, "bicubic", "pillow")
    with pytest.raises(ValueError, match="uint8"):
        resize(image[0], 2, 2, "bicubic", "pillow")
    with pytest.raises(ValueError, match="uint8"):
        resize(image[:0], 2, 2, "bicubic", "pillow")
    with pytest.raises(ValueError, match="channels"):
        resize(noise(4, 4, 5), 2, 2, "bicubic", "torchvision")
