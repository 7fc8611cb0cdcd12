"""RGB pictures of Pillow read where they stand in memory.

Pillow keeps an RGB picture as words of four bytes, the last of no meaning, and shows them to others through
the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html). One pass of a compiled
kernel makes the array of them that ``numpy.asarray`` makes in two passes of Pillow's encoder. A picture of
more than 16 MB lies in several pieces, which Pillow does not show: it is cut into bands, which it does. That
all this works is tried on a picture when the process reads its first; where it does not ``numpy.asarray`` is
called.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

try:
    from .resample_kernels import three_of_four
except ImportError:  # no numba
    three_of_four = None

Bytes = npt.NDArray[np.uint8]

_BAND = 1 << 22
"""Bytes of Pillow's in a band: few enough for one piece, and for a cache."""


class _Array(ctypes.Structure):
    """ArrowArray, up to what is read of it."""


_Array._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
]

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def read_rgb(image: Image.Image, out: Bytes) -> bool:
    """Writes the pixels into `out`, uint8 [3 * height * width]; False where they cannot be read.

    Args:
        image: a picture in mode RGB.
        out: as many bytes as the picture has.
    """
    fits = 0 < out.size == 3 * image.width * image.height
    return fits and _works() and (_read(image, out) or _read_bands(image, out, _BAND))


def _read_bands(image: Image.Image, out: Bytes, band: int) -> bool:
    rows = max(1, band // (4 * image.width))
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        part = image.crop((0, top, image.width, bottom))
        if not _read(part, out[3 * image.width * top : 3 * image.width * bottom]):
            return False
    return True


def _read(image: Image.Image, out: Bytes) -> bool:
    try:
        shown = image.__arrow_c_array__()  # keeps the memory as long as it lives
    except (AttributeError, ValueError):  # an older Pillow; a picture in several pieces
        return False
    array = _Array.from_address(_pointer(shown[1], b"arrow_array"))
    words = array.children[0].contents
    if array.offset or words.offset or 3 * words.length != 4 * out.size:
        return False
    view = (ctypes.c_uint8 * words.length).from_address(words.buffers[1])
    three_of_four(np.ctypeslib.as_array(view), out)
    return True


@lru_cache(maxsize=1)
def _works() -> bool:
    """Whether a picture is read as ``numpy.asarray`` reads it."""
    if three_of_four is None:
        return False
    expected = np.random.default_rng(0).integers(0, 256, (23, 17, 3), np.uint8)
    whole, banded = np.zeros((2, expected.size), np.uint8)
    try:
        image = Image.fromarray(expected)
        read = _read(image, whole) and _read_bands(image, banded, 4 * 17 * 5)
        return read and all(np.array_equal(found, expected.reshape(-1)) for found in (whole, banded))
    except Exception:  # whatever it is, Pillow can do without us
        return False
