"""Pixels are read once a request, never from another request, and are not kept after it."""

import gc
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

pytest.importorskip("torch")

from vlmopt.runtime import pillow_memory, pixels
from vlmopt.runtime.pixels import behind, read_once, read_pixels

SIDES = st.integers(0, 70)


def test_the_second_reader_gets_the_first_ones_array():
    image, other = Image.new("RGB", (3, 4), (1, 2, 3)), Image.new("RGB", (3, 4), (1, 2, 3))
    with read_once():
        first = read_pixels(image)
        assert read_pixels(other) is not first
        assert read_pixels(image) is first
    assert np.array_equal(first, np.asarray(image))


def test_a_picture_that_changed_between_requests_is_read_anew():
    image = Image.new("RGB", (3, 4))
    with read_once():
        read_pixels(image)
    image.putpixel((0, 0), (9, 9, 9))
    with read_once():
        assert read_pixels(image)[0, 0, 0] == 9
    image.putpixel((0, 0), (8, 8, 8))
    assert read_pixels(image)[0, 0, 0] == 8, "outside of a request"


def test_nothing_is_kept_after_a_request_even_one_that_failed():
    def fail(image):
        with read_once():
            read_pixels(image)
            raise ValueError("bad prompt")

    image = Image.new("RGB", (3, 4))
    alive = weakref.ref(image)
    with pytest.raises(ValueError, match="bad prompt"):
        fail(image)
    del image
    gc.collect()
    assert alive() is None


def test_threads_do_not_share():
    image = Image.new("RGB", (3, 4))
    found = []

    def read():
        with read_once():
            found.append(read_pixels(image))

    with read_once():
        first = read_pixels(image)
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert found[0] is not first


def noise(mode, width, height):
    bands = len(Image.new(mode, (1, 1)).getbands())
    values = np.random.default_rng(width * height).integers(0, 256, (height, width, bands), np.uint8)
    return Image.fromarray(values.squeeze(2) if bands == 1 else values, mode)


@given(st.sampled_from(["RGB", "L", "RGBA", "CMYK"]), SIDES, SIDES)
def test_pictures_are_read_as_numpy_reads_them(mode, width, height):
    image = noise(mode, width, height)
    found, expected = read_pixels(image), np.asarray(image)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(found, expected)


def test_rgb_pictures_are_read_by_the_kernel():
    pytest.importorskip("numba")
    image = noise("RGB", 640, 480)
    out = np.zeros(3 * 640 * 480, np.uint8)
    assert pillow_memory.read_rgb(image, out)
    assert np.array_equal(out, np.asarray(image).reshape(-1))
    for other in (out[3:], np.zeros(3 * 640 * 481, np.uint8)):
        assert not pillow_memory.read_rgb(image, other)


def test_a_picture_in_several_pieces_is_read_in_bands():
    pytest.importorskip("numba")
    image = noise("RGB", 2501, 2503)  # more than one of Pillow's blocks of 16 MB
    assert not pillow_memory._read(image, np.zeros(3 * 2501 * 2503, np.uint8))
    pixels = read_pixels(image)
    assert pixels.flags.writeable
    assert np.array_equal(pixels, np.asarray(image))


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 4096))
def test_bands_of_any_height_make_the_picture(width, height, band):
    pytest.importorskip("numba")
    image, out = noise("RGB", width, height), np.zeros(3 * width * height, np.uint8)
    assert pillow_memory._read_bands(image, out, band)
    assert np.array_equal(out, np.asarray(image).reshape(-1))


def test_bands_that_pillow_does_not_show_are_left_to_it(monkeypatch):
    image, out = noise("RGB", 20, 30), np.zeros(1800, np.uint8)
    monkeypatch.setattr(pillow_memory, "_read", lambda image, out: False)
    assert not pillow_memory._read_bands(image, out, 240)


def test_a_part_and_a_mirrored_picture_are_read_whole():
    image = noise("RGB", 50, 40)
    for changed in (image.crop((3, 5, 40, 31)), image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)):
        assert np.array_equal(read_pixels(changed), np.asarray(changed))


CHANGES = {
    "none": lambda pixels: pixels,
    "mirrored": lambda pixels: pixels[..., ::-1],
    "turned": lambda pixels: pixels.swapaxes(0, 1),
    "cut": lambda pixels: pixels[1:],
    "copied": lambda pixels: pixels.copy(),
    "elsewhere in the memory": lambda pixels: pixels.base[: pixels.nbytes].reshape(pixels.shape),
}


@pytest.mark.parametrize("size", [0, 1536, 4096, 5000])
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_payload_is_its_head_and_the_pixels(size, change):
    head = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    found = change(read_pixels(noise("RGB", 31, 17)))
    expected = np.concatenate([head, found.reshape(-1)])
    payload = behind(head, found)
    assert payload.is_contiguous()
    assert np.array_equal(payload.numpy(), expected)


def test_pixels_are_not_copied_into_a_payload():
    pytest.importorskip("numba")
    found = read_pixels(noise("RGB", 31, 17))
    assert np.shares_memory(behind(np.zeros(1536, np.uint8), found).numpy(), found)
    assert len(found.base) == pixels._ROOM + found.nbytes
