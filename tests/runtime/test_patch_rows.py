"""Rows of patches: stock's, in values, shape, strides, and in whether they are a copy."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from vlmopt.runtime import memory, resample_numba  # noqa: E402
from vlmopt.runtime.patch_rows import patch_rows  # noqa: E402

DTYPES = [torch.uint8, torch.bfloat16, torch.float16, torch.float32, torch.float64]
LAYOUTS = {
    "contiguous": lambda pictures: pictures,
    "channels last": lambda pictures: pictures.to(memory_format=torch.channels_last),
    "turned": lambda pictures: pictures.transpose(2, 3).contiguous().transpose(2, 3),
    "cut out": lambda pictures: torch.nn.functional.pad(pictures, (0, 3))[..., :-3],
    "repeated": lambda pictures: pictures[:1].expand(pictures.shape),
    "further on": lambda pictures: torch.cat([pictures[:1], pictures])[1:],
}


def stock(x, height, width, size):
    """The lines of vLLM's Conv2dLayer._forward_mulmat."""
    x = x.unfold(2, height, height).unfold(3, width, width)
    return x.permute(0, 2, 3, 1, 4, 5).reshape(-1, size)


@pytest.fixture(params=["kernel", "threads", "no numba"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2 if request.param == "threads" else 1)
    if request.param == "no numba":
        monkeypatch.setattr(resample_numba, "HAVE_NUMBA", False)
    yield request.param
    torch.set_num_threads(threads)


def pictures_of(shape, dtype, seed=0):
    noise = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return (
        torch.from_numpy(noise).to(dtype) if dtype == torch.uint8 else torch.from_numpy(noise).to(dtype) / 7
    )


@st.composite
def pictures_and_patches(draw):
    """Pictures that hold 1 to 4 patches each way and may have some pixels more; a patch has 1 to 9 a side."""
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    sides = [side * draw(st.integers(1, 4)) + draw(st.integers(0, side - 1)) for side in (height, width)]
    shape = draw(st.integers(0, 3)), draw(st.integers(1, 4)), *sides
    layout = draw(st.sampled_from(["contiguous"] * 5 + sorted(LAYOUTS)))
    return LAYOUTS[layout](pictures_of(shape, draw(st.sampled_from(DTYPES)))), height, width


@pytest.mark.usefixtures("path")
@settings(deadline=None, max_examples=200)
@given(pictures_and_patches())
def test_rows_are_stocks(drawn):
    pictures, height, width = drawn
    size = pictures.shape[1] * height * width
    made, expected = patch_rows(pictures, height, width, size), stock(pictures, height, width, size)
    assert torch.equal(made, expected)
    assert (made.dtype, made.shape, made.stride()) == (expected.dtype, expected.shape, expected.stride())
    start = pictures.untyped_storage().data_ptr()
    copied = [rows.untyped_storage().data_ptr() != start for rows in (made, expected)]
    assert copied[0] == copied[1] or not made.numel()
    if copied[0]:
        assert made.data_ptr() % 64 == expected.data_ptr() % 64


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("side", "patch"), [(448, 14), (512, 16), (384, 14), (336, 14)])
def test_rows_of_whole_pictures(dtype, side, patch):
    pictures = pictures_of((5, 3, side, side), dtype)
    for _ in range(3):  # in fresh memory, and in that of rows that are gone
        assert torch.equal(*(make(pictures, patch, patch, 3 * patch**2) for make in (patch_rows, stock)))


def test_they_lie_in_memory_that_is_kept():
    memory._kept.clear()
    pictures = pictures_of((5, 3, 448, 448), torch.float32)
    places = {patch_rows(pictures, 14, 14, 588).data_ptr() for _ in range(3)}
    assert len(places) == 1
    assert [piece.nbytes // (1 << 20) for piece in memory._kept.values()] == [11]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((4, 4, 47), "invalid for input of size 192"),
        ((9, 4, 108), "maximum size for tensor"),
        ((4, 9, 108), "maximum size for tensor"),
    ],
)
def test_what_does_not_fit_is_refused_as_stock_does(words, message):
    pictures = pictures_of((1, 3, 8, 8), torch.float32)
    for make in (stock, patch_rows):
        with pytest.raises(RuntimeError, match=message):
            make(pictures, *words)


@pytest.mark.usefixtures("path")
def test_what_is_compiled_or_learned_or_elsewhere_is_left_to_torch():
    pictures = pictures_of((2, 3, 16, 24), torch.float32)
    compiled = torch.compile(patch_rows, fullgraph=True, backend="eager", dynamic=True)
    assert torch.equal(compiled(pictures, 4, 6, 72), stock(pictures, 4, 6, 72))
    learned = pictures.clone().requires_grad_()
    patch_rows(learned, 4, 6, 72).sum().backward()
    assert torch.equal(learned.grad, torch.ones_like(pictures))
    assert patch_rows(pictures.to("meta"), 4, 6, 72).shape == (2 * 4 * 4, 72)


@pytest.mark.engine
@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("side", "patch"), [(448, 14), (512, 16), (384, 14)])
def test_the_layer_of_vllm_gives_the_same_bits(dtype, side, patch):
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.conv import Conv2dLayer

    with set_current_vllm_config(VllmConfig()):
        layer = Conv2dLayer(3, 32, patch, patch, params_dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter.data, generator=generator)
    pictures = torch.randn((7, 3, side, side), generator=generator).to(dtype)
    with torch.inference_mode():
        expected = layer._forward_mulmat(pictures)
        rows = patch_rows(pictures, *layer.kernel_size, layer.input_size)
        made = torch.nn.functional.linear(rows, layer.weight.view(32, -1), layer.bias)
    side //= patch
    assert torch.equal(made.view(7, side, side, 32).permute(0, 3, 1, 2), expected)
