"""Muon: what torch's own does, but for bfloat16's roundings; and its updates are orthogonal."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vlmopt.argus.training.muon import Muon, orthogonal

SHAPES = st.lists(st.tuples(st.integers(1, 24), st.integers(1, 24)), min_size=1, max_size=5)


def learnt(shapes, seed, make, steps=4):
    """Weights after some steps by gradients of all sizes; the last weight has none at each second step."""
    chance = torch.Generator().manual_seed(seed)
    weights = [nn.Parameter(torch.randn(*shape, generator=chance)) for shape in shapes]
    optimizer = make(weights)
    for step in range(steps):
        for weight in weights:
            weight.grad = torch.randn(weight.shape, generator=chance) * 10.0 ** (step - 2)
        if step % 2 and len(weights) > 1:
            weights[-1].grad = None
        optimizer.step()
    return weights


@settings(deadline=None)
@given(SHAPES, st.integers(0, 99), st.sampled_from((0.0, 0.1)), st.sampled_from((0.9, 0.95)))
def test_it_is_torchs_own_but_for_roundings(shapes, seed, decay, momentum):
    rate = 0.01
    ours = learnt(shapes, seed, lambda weights: Muon(weights, rate, weight_decay=decay, momentum=momentum))
    torchs = learnt(
        shapes,
        seed,
        lambda weights: torch.optim.Muon(
            weights, rate, weight_decay=decay, momentum=momentum, adjust_lr_fn="match_rms_adamw"
        ),
    )
    for left, right in zip(ours, torchs, strict=True):
        # Four updates, each rate * 0.2 sqrt(max(shape)) times values of at most about 1.2.
        longest = 4 * rate * 0.2 * max(left.shape) ** 0.5
        assert (left - right).abs().max() < 0.1 * longest


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 40), st.integers(0, 99))
def test_singular_values_come_near_one(count, rows, columns, seed):
    chance = torch.Generator().manual_seed(seed)
    less = min(rows, columns)
    left, right = (
        torch.linalg.qr(torch.randn(count, side, less, generator=chance)).Q for side in (rows, columns)
    )
    values = torch.rand(count, 1, less, generator=chance) * 0.9 + 0.1
    found = orthogonal(left * values @ right.mT)
    assert found.shape == (count, rows, columns)
    made = torch.linalg.svdvals(found)
    assert made.min() > 0.6
    assert made.max() < 1.3
    # The directions stay.
    turned = left.mT @ found @ right
    assert (turned - torch.diag_embed(turned.diagonal(dim1=-2, dim2=-1))).abs().max() < 0.01


def test_a_matrix_of_zeros_stays():
    assert orthogonal(torch.zeros(2, 3, 4)).eq(0).all()


def test_matrices_of_one_shape_do_not_see_each_other():
    matrices = torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(1))
    together = orthogonal(matrices)
    each = torch.cat([orthogonal(matrices[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, each)


def test_a_closure_may_compute_gradients():
    weight = nn.Parameter(torch.ones(2, 3))
    optimizer = Muon([weight], 0.1, weight_decay=0.0)

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 6
    assert (weight < 1).all()
