"""Memory of large tensors: like torch's own, each tensor's alone, and used again when that is gone."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from vlmopt.runtime import memory  # noqa: E402

CPU = torch.device("cpu")
DTYPES = [torch.uint8, torch.bfloat16, torch.float16, torch.float32, torch.float64]
LARGE = 4 << 20


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    memory._kept.clear()
    yield
    memory._kept.clear()


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.sampled_from(DTYPES), st.booleans())
def test_it_is_like_torchs(shape, dtype, large):
    shape = (LARGE, *shape) if large and 0 < torch.Size(shape).numel() < 4 else tuple(shape)
    made, stock = memory.empty(shape, dtype, CPU), torch.empty(shape, dtype=dtype)
    assert (made.shape, made.dtype, made.stride()) == (stock.shape, stock.dtype, stock.stride())
    assert made.storage_offset() == 0
    assert made.data_ptr() % 64 == 0 or not made.numel()
    assert made.fill_(3).sum(dtype=torch.float64) == 3 * stock.numel()


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("mvd"), st.integers(1, 5), st.integers(0, 5)), max_size=30))
def test_no_two_tensors_share_memory(steps):
    """Tensors are made, viewed and dropped in any order; what was written to one stays."""
    alive = {}
    for number, (step, megabytes, which) in enumerate(steps):
        if step == "m":
            alive[number] = memory.empty((megabytes << 20,), torch.float32, CPU)[:: 1 << 18].fill_(number)
        elif alive:
            key = list(alive)[which % len(alive)]
            alive[key] = alive[key][1:] if step == "v" and len(alive[key]) > 1 else None
            if alive[key] is None:
                del alive[key]
        assert all(bool((tensor == key).all()) for key, tensor in alive.items())
        assert len(memory._kept) <= 2


def test_memory_of_a_tensor_that_is_gone_is_used_again():
    first, second = (memory.empty((LARGE + 9,), torch.uint8, CPU) for _ in range(2))
    places = {first.data_ptr(), second.data_ptr()}
    view = second[9:]
    del second
    assert memory.empty((LARGE + 9,), torch.uint8, CPU).data_ptr() not in places, "the view still lies there"
    del first, view
    third, fourth = (memory.empty((LARGE + 1,), torch.uint8, CPU) for _ in range(2))
    assert {third.data_ptr(), fourth.data_ptr()} == places


def test_memory_that_is_much_too_large_falls_out_of_use():
    memory.empty((5 * LARGE,), torch.uint8, CPU)
    assert [piece.nbytes > 5 * LARGE for piece in memory._kept.values()] == [True]
    first, second = (memory.empty((LARGE,), torch.uint8, CPU) for _ in range(2))
    assert [piece.nbytes > 5 * LARGE for piece in memory._kept.values()] == [True]
    del first, second
    assert [piece.nbytes > 5 * LARGE for piece in memory._kept.values()] == [False, False]


def test_small_tensors_and_devices_are_torchs():
    memory.empty((LARGE - 1,), torch.uint8, CPU)
    assert memory.empty((LARGE,), torch.uint8, torch.device("meta")).is_meta
    assert not memory._kept


def test_threads_do_not_get_each_others():
    wrong = []

    def work(number: int) -> None:
        for turn in range(200):
            tensor = memory.empty((LARGE,), torch.uint8, CPU)[:: 1 << 16].fill_(number)
            other = memory.empty((LARGE,), torch.uint8, CPU)[:: 1 << 16].fill_(number + 100)
            if not (bool((tensor == number).all()) and bool((other == number + 100).all())):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(memory._kept) <= 2
