"""Muon for the matrices between layers, AdamW for all else, as one optimizer for the trainer.

A model that begins from nothing learns the scenes faster so: side by side, in batches of 8, four minutes came
as far as five of AdamW alone. A pretrained one is best left with the optimizer that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from vlmopt.argus.training.muon import Muon

_BETAS = (0.9, 0.99)


class MuonAndAdamW(Optimizer):
    """Two optimizers with the interface of one: their groups stand in one list, their states in one dict.

    Updates of both are as large, so one learning rate does for both.

    Args:
        model: its parameters that are learnt. The linear layers' weights are Muon's; embeddings, the output
            head, convolutions, biases and norms are AdamW's, the one-dimensional ones without weight decay.
    """

    def __init__(self, model: nn.Module, *, learning_rate: float, weight_decay: float) -> None:
        matrices = {id(weight): weight for weight in _between_layers(model) if weight.requires_grad}
        rest = [
            weight for weight in model.parameters() if weight.requires_grad and id(weight) not in matrices
        ]
        groups = [
            {"params": [weight for weight in rest if weight.ndim > 1], "weight_decay": weight_decay},
            {"params": [weight for weight in rest if weight.ndim < 2], "weight_decay": 0.0},
        ]
        self._parts: tuple[Optimizer, ...] = (
            Muon(matrices.values(), learning_rate, weight_decay=weight_decay),
            AdamW([group for group in groups if group["params"]], learning_rate, betas=_BETAS, fused=True),
        )
        super().__init__([group for part in self._parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all parameters."""
        loss = None if closure is None else closure()
        for part in self._parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The two optimizers' own, as a list."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What `state_dict` gave."""
        for part, state in zip(self._parts, cast("list[dict[str, Any]]", state_dict["parts"]), strict=True):
            part.load_state_dict(state)
        # Loading made the groups anew; a scheduler must set the rates of those that are used.
        self.param_groups = [group for part in self._parts for group in part.param_groups]


def _between_layers(model: nn.Module) -> list[torch.Tensor]:
    """The weights of linear layers; not those of the output head, whose rows are tokens."""
    head = getattr(model, "get_output_embeddings", lambda: None)()
    return [part.weight for part in model.modules() if isinstance(part, nn.Linear) and part is not head]
