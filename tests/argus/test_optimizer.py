"""Muon and AdamW as one optimizer: what each takes, and that nothing is lost when a run is saved."""

import copy

import pytest
import torch

from vlmopt.argus.build import build
from vlmopt.argus.training.optimizer import MuonAndAdamW

RATE = 0.01


@pytest.fixture
def model():
    return build("argusvlm-tiny")[0].train()


def optimizer_of(model):
    return MuonAndAdamW(model, learning_rate=RATE, weight_decay=0.1)


def learn(model, optimizer, steps):
    """Updates by gradients that depend on the weights and the step."""
    for step in steps:
        for number, weight in enumerate(model.parameters()):
            if weight.requires_grad:
                weight.grad = torch.sin(weight.detach() * (step + 1) * 100 + number)
        optimizer.step()
        optimizer.zero_grad()


def weights(model):
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def test_every_parameter_is_updated_by_one_of_the_two(model):
    names = {id(weight): name for name, weight in model.named_parameters()}
    groups = optimizer_of(model).param_groups
    taken = [names[id(weight)] for group in groups for weight in group["params"]]
    assert sorted(taken) == sorted(names.values())
    muon, whole, flat = ({names[id(weight)] for weight in group["params"]} for group in groups)
    assert [group["weight_decay"] for group in groups] == [0.1, 0.1, 0.0]
    assert "model.language_model.layers.0.mlp.down_proj.weight" in muon
    assert "model.projector.linear_1.weight" in muon
    assert {name for name in whole if "embed" not in name} == set()
    assert "model.language_model.embed_tokens.weight" in whole  # the head, too: its rows are tokens
    assert all(name.endswith("bias") or "norm" in name for name in flat)


def test_the_head_is_no_matrix_between_layers_where_it_is_not_shared(model):
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    muon = optimizer_of(model).param_groups[0]["params"]
    assert all(weight is not model.lm_head.weight for weight in muon)


def test_only_what_is_learnt_is_updated(model):
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith("model.projector."))
    before = weights(model)
    learn(model, optimizer_of(model), range(2))
    changed = {name for name, weight in weights(model).items() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if name.startswith("model.projector.")}


def test_a_state_that_is_loaded_goes_on_as_if_it_had_not_been_saved(model):
    other = copy.deepcopy(model)
    whole = optimizer_of(model)
    learn(model, whole, range(4))
    first = optimizer_of(other)
    learn(other, first, range(2))
    second = optimizer_of(other)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    learn(other, second, range(2, 4))
    assert same(weights(model), weights(other))


def test_a_scheduler_sets_the_rates_of_both_also_after_loading(model):
    optimizer = optimizer_of(model)
    learn(model, optimizer, range(1))
    optimizer.load_state_dict(optimizer.state_dict())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0)
    assert all(group["lr"] == 0 for group in optimizer.param_groups)
    before = weights(model)
    learn(model, optimizer, range(1))
    scheduler.step()
    assert same(weights(model), before)
