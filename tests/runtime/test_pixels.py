"""Pixels are read once a request, never from another request, and are not kept after it."""

import gc
import threading
import weakref

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

from vlmopt.runtime.pixels import read_once, read_pixels


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
