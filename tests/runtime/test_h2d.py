"""One copy for a batch: the same tensors as stock's field by field."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.engine
torch = pytest.importorskip("torch")
inputs = pytest.importorskip("vllm.multimodal.inputs")

from vlmopt.runtime import h2d  # noqa: E402

dtypes = st.sampled_from([torch.uint8, torch.bfloat16, torch.float32, torch.int64, torch.bool])


def tensor_of(shape, dtype):
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


@st.composite
def columns(draw):
    """One field of a batch: elements of any shapes, even or uneven, empty ones among them."""
    kind = draw(st.sampled_from(["batched", "flat", "flat-last", "shared", "on-host"]))
    dtype = draw(dtypes)
    count = draw(st.integers(1, 3))
    tail = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    uneven = draw(st.booleans())
    field = {
        "batched": inputs.MultiModalBatchedField(),
        "flat": inputs.MultiModalFlatField(slices=[]),
        "flat-last": inputs.MultiModalFlatField(slices=[], dim=-1),
        "shared": inputs.MultiModalSharedField(batch_size=count),
        "on-host": inputs.MultiModalBatchedField(keep_on_cpu=True),
    }[kind]
    elems = []
    for _ in range(count):
        shape = [draw(st.integers(0, 4)) if uneven or kind == "flat" else 2, *tail]
        if kind == "flat-last":
            shape = [2, *tail[:-1], draw(st.integers(1, 4))]
        elems.append(inputs.MultiModalFieldElem(data=tensor_of(shape, dtype), field=field))
    return elems


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(columns(), min_size=1, max_size=4))
def test_the_batch_is_stocks(batch, monkeypatch):
    monkeypatch.setattr(h2d, "on_device", lambda device: True)  # this machine's own memory is the device
    elems = {f"field{at}": column for at, column in enumerate(batch)}
    ours = h2d.reduce_together(elems, device="cpu", pin_memory=False)
    stock = {
        key: column[0].field.reduce_data(column, device="cpu", pin_memory=False)
        for key, column in elems.items()
    }
    assert list(ours) == list(stock)
    for key, expected in stock.items():
        assert inputs.nested_tensors_equal(ours[key], expected, check_dtype=True)


def test_one_copy_carries_all_joined_fields(monkeypatch):
    copies = []
    monkeypatch.setattr(h2d, "on_device", lambda device: True)
    to = h2d.Arena.to
    monkeypatch.setattr(h2d.Arena, "to", lambda arena, device: copies.append(1) or to(arena, device))
    field = inputs.MultiModalBatchedField()
    elems = {
        str(at): [inputs.MultiModalFieldElem(data=torch.ones(3, at + 1), field=field) for _ in range(2)]
        for at in range(5)
    }
    h2d.reduce_together(elems, device="cpu", pin_memory=False)
    assert copies == [1]


@given(st.lists(st.tuples(st.lists(st.integers(0, 4), max_size=3), dtypes), min_size=1, max_size=5))
def test_tensors_cross_together_unchanged(shapes):
    tensors = [tensor_of(shape, dtype) for shape, dtype in shapes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(h2d, "on_device", lambda device: True)
        moved = h2d.copy_together(tensors, "cpu", pin_memory=False)
    for one, other in zip(tensors, moved, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
