"""Masks that are not made answer as masks that are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from vlmopt.runtime.ones import holds_values, is_ones, kept_rows, ones, patches_of_ones  # noqa: E402

CPU = torch.device("cpu")
counts = st.integers(0, 4)


def stock_patches(mask, patch):
    grid = mask.unfold(dimension=1, size=patch, step=patch).unfold(dimension=2, size=patch, step=patch)
    return (grid.sum(dim=(-1, -2)) > 0).bool()


@given(counts, st.integers(1, 20), st.integers(1, 20), st.integers(1, 8))
def test_patches_of_ones_are_stocks(count, height, width, patch):
    if patch > min(height, width):
        return
    mask = ones((count, height, width), CPU)
    assert is_ones(mask)
    assert torch.equal(mask, torch.ones(count, height, width, dtype=torch.int64))
    assert torch.equal(patches_of_ones(mask, patch), stock_patches(mask.contiguous(), patch))


@given(st.lists(st.booleans(), max_size=5), st.booleans())
def test_kept_rows_are_stocks(kept, unmade):
    shape = (len(kept), 2, 3)
    rows = ones(shape, CPU) if unmade else torch.arange(6 * len(kept)).view(shape)
    kept = torch.tensor(kept, dtype=torch.bool)
    found = kept_rows(rows, kept)
    assert torch.equal(found, rows.contiguous()[kept])
    assert is_ones(found) == unmade


@given(st.lists(st.sampled_from(["zero", "head", "tail", "nan", "minus zero"]), min_size=1, max_size=5))
def test_rows_with_values_are_those_that_stock_counts(kinds):
    pixels = torch.zeros(len(kinds), 3, 16, 16, dtype=torch.bfloat16)
    for row, kind in zip(pixels, kinds, strict=True):
        if kind == "head":
            row[0, 0, 0] = 1
        elif kind == "tail":
            row[-1, -1, -1] = -1
        elif kind == "nan":
            row[1, 2, 3] = float("nan")
        elif kind == "minus zero":
            row[0, 0, 0] = -0.0
    stock = (pixels == 0.0).sum(dim=(-1, -2, -3)) != pixels.shape[1:].numel()
    assert torch.equal(holds_values(pixels), stock)


def test_a_tensor_made_of_a_mask_is_no_longer_known():
    assert not is_ones(ones((2, 3, 4), CPU)[:1])
    assert not is_ones(torch.ones(2, 3, 4))
