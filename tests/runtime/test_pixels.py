"""Pixels are read once a request, and never from another request."""

import threading

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

from vlmopt.runtime.pixels import begin_request, read_pixels


def test_the_second_reader_gets_the_first_ones_array():
    image, other = Image.new("RGB", (3, 4), (1, 2, 3)), Image.new("RGB", (3, 4), (1, 2, 3))
    begin_request()
    first = read_pixels(image)
    assert read_pixels(other) is not first
    assert read_pixels(image) is first
    assert np.array_equal(first, np.asarray(image))


def test_a_picture_that_changed_between_requests_is_read_anew():
    image = Image.new("RGB", (3, 4))
    begin_request()
    read_pixels(image)
    image.putpixel((0, 0), (9, 9, 9))
    begin_request()
    assert read_pixels(image)[0, 0, 0] == 9


def test_threads_do_not_share():
    image = Image.new("RGB", (3, 4))
    begin_request()
    first = read_pixels(image)
    found = []
    thread = threading.Thread(target=lambda: found.append(read_pixels(image)))
    thread.start()
    thread.join()
    assert found[0] is not first
