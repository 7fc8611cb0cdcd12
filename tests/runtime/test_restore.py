"""The memory of a batch: numpy's, and like torch's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.engine
torch = pytest.importorskip("torch")
pytest.importorskip("vllm.multimodal.inputs")

from vlmopt.runtime import restore  # noqa: E402

DTYPES = [torch.uint8, torch.bfloat16, torch.float16, torch.float32]


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.sampled_from(DTYPES))
def test_a_batchs_memory_is_like_torchs(shape, dtype):
    made, stock = (
        make(tuple(shape), dtype=dtype, device=torch.device("cpu")) for make in (restore._empty, torch.empty)
    )
    assert (made.shape, made.dtype, made.stride()) == (stock.shape, stock.dtype, stock.stride())
    assert made.storage_offset() == 0
    assert made.data_ptr() % 64 == 0
    made.fill_(3)
    assert torch.equal(made, torch.full(shape, 3, dtype=dtype))


def test_a_large_batch_outlives_what_it_was_made_in():
    made = [
        restore._empty((9, 3, 448, 448), torch.float32, torch.device("cpu")).fill_(value) for value in (1, 2)
    ]
    assert [bool((batch == value).all()) for batch, value in zip(made, (1, 2), strict=True)] == [True, True]
