"""Compilation of the kernels: when, for which processors, and kept where."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vlmopt.runtime import resample_kernels as kernels
from vlmopt.runtime.resample import coefficients
from vlmopt.runtime.resample_numba import Planar, resize_hwc, resize_windows, warm_up, write_patches

Guarded = Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]


@pytest.mark.parametrize("y0", [0, 1, 63, 64, 99])
def test_vectors_stay_inside_the_picture(y0: int) -> None:
    """The kernels write whole vectors; beyond the last plane of the result lies other memory."""
    height, width, to_width, to_height = 100, 37, 51, 70
    source = Planar.of(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))
    across = coefficients(width, to_width, "bicubic", "pillow")
    down = coefficients(height, to_height, "bicubic", "pillow")
    weights = [
        (axis.first.copy(), axis.weight.copy(), np.int32(axis.shift), False) for axis in (across, down)
    ]
    picture = source.interleaved()
    for horizontal, image in ((kernels.horizontal, source.data), (kernels.horizontal_of_picture(), picture)):
        wide = np.full((4, 128, to_width + kernels.PAD), 7, np.uint8)
        horizontal(image, *weights[0], y0, height, wide[:3])
        assert (wide[3] == 7).all()
    tall = np.full((4, 128, width + kernels.PAD), 7, np.uint8)
    kernels.vertical(source.data, *weights[1], width, tall[:3])
    assert (tall[3] == 7).all()
    assert (tall[:3, to_height:] == 7).all()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """Memory that ends where reading stops the process: makes an array whose last byte is the last."""
    page = mmap.PAGESIZE
    size = 24 * page
    memory = mmap.mmap(-1, size + page)
    base = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    protect = functools.partial(
        libc.mprotect, ctypes.c_void_p(base.ctypes.data + size), ctypes.c_size_t(page)
    )
    assert protect(0) == 0
    yield lambda image: _at_the_end(base[:size], image)
    assert protect(mmap.PROT_READ | mmap.PROT_WRITE) == 0


def _at_the_end(memory: npt.NDArray[np.uint8], image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    placed = memory[memory.size - image.size :].reshape(image.shape)
    placed[:] = image
    return placed


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 200), st.integers(1, 150), st.integers(0, 199))
@example(64, 16, 0)
@example(128, 17, 127)
def test_nothing_behind_a_picture_is_read(guarded: Guarded, height: int, width: int, y0: int) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    axis = coefficients(width, width + 7, "bicubic", "pillow")
    weights = axis.first.copy(), axis.weight.copy(), np.int32(axis.shift), False
    made, expected = (Planar.empty(height, width + 7) for _ in range(2))
    y0 = min(y0, height - 1)
    kernels.horizontal_of_picture()(guarded(picture), *weights, y0, height, made.data)
    kernels.horizontal(Planar.of(picture).data, *weights, y0, height, expected.data)
    seen = slice(0, 3), slice(y0, height), slice(0, width + 7)
    assert np.array_equal(made.data[seen], expected.data[seen])


def test_warm_up_leaves_nothing_to_compile() -> None:
    warm_up(np.uint16, np.float32)
    compiled = [
        kernels.horizontal,
        kernels.horizontal_of_picture(),
        kernels.vertical,
        kernels.windows,
        kernels.patches,
        kernels.to_planar(),
        kernels.to_interleaved,
    ]
    before = [len(kernel.signatures) for kernel in compiled]
    image = np.frombuffer(bytes(1800), np.uint8).reshape(20, 30, 3)
    for dtype in (np.uint16, np.float32):
        for size in ((25, 35), (20, 35), (5, 30)):
            table = np.zeros((3, 256), dtype)
            table.setflags(write=False)
            out = np.empty((1, 3, 4, 4), dtype)
            resize_windows(image, size[1], size[0], "bicubic", "pillow", [(0, 0)], 4, 4, table, out)
            write_patches(out[0], 1, 2, 3, np.empty((16, 9), dtype))
    resize_hwc(image, 9, 9, "lanczos", "torchvision")
    resize_windows(Planar.of(image), 9, 9, "bicubic", "pillow", [(0, 0)], 4, 4, table, out)
    assert [len(kernel.signatures) for kernel in compiled] == before


PORTABLE = """
import numpy as np, torch
from vlmopt.runtime import resample_kernels
from vlmopt.runtime.resample import resize_native
from vlmopt.runtime.resample_numba import resize_windows
assert not resample_kernels.HAVE_VBMI
rng = np.random.default_rng(0)
for filter, library in (("bicubic", "pillow"), ("lanczos", "torchvision")):
    for height, width, to_height, to_width in ((37, 53, 150, 170), (210, 190, 40, 31), (210, 19, 40, 31)):
        image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        table = rng.integers(0, 65536, (3, 256), dtype=np.uint16)
        out = np.empty((1, 3, to_height, to_width), np.uint16)
        resize_windows(image, to_width, to_height, filter, library, [(0, 0)], to_height, to_width, table, out)
        planes = resize_native(torch.from_numpy(image), to_width, to_height, filter, library).numpy()
        expected = np.stack([table[c][planes[..., c]] for c in range(3)])
        assert np.array_equal(out[0], expected), (filter, height)
print("equal")
"""


@pytest.mark.slow
def test_the_code_for_any_processor_gives_the_same_bytes(tmp_path: Path) -> None:
    """The kernels compiled for a processor with nothing but SSE2, or NEON."""
    settings = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PORTABLE]
    run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert run.stdout == "equal\n", run.stderr


@pytest.mark.slow
def test_the_second_start_loads_the_kernels_from_disk(tmp_path: Path) -> None:
    code = """
from vlmopt.runtime import resample_kernels as kernels, resample_numba
resample_numba.warm_up()
pictures = kernels.horizontal_of_picture(), kernels.to_planar()
rebuilt = kernels.windows, kernels.patches
made = kernels.horizontal, kernels.vertical, kernels.to_interleaved, *rebuilt, *pictures
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in made))
"""
    cache = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    starts = [
        subprocess.run(
            [sys.executable, "-c", code], env=cache, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert starts == ["7\n", "0\n"]
