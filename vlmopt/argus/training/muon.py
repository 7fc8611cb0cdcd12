"""Muon (https://kellerjordan.github.io/posts/muon), in the precision of the weights.

torch's own makes each update orthogonal in bfloat16, matrix by matrix: on a processor without arithmetic for
bfloat16 a step of the smallest member took 3 s in place of 0.5. Here matrices of one shape go through the
same iteration together, in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_EPSILON = 1e-7


class Muon(Optimizer):
    """Momentum (Nesterov's) whose updates are made orthogonal, with decoupled weight decay.

    An update is scaled by 0.2 sqrt(max(rows, columns)), so that it is as large as one of AdamW
    (https://arxiv.org/abs/2502.16982) and AdamW's learning rate and weight decay do.

    Args:
        params: matrices.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float, *, weight_decay: float, momentum: float = 0.95
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all matrices that have a gradient."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            alike: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    alike.setdefault(weight.shape, []).append(weight)
            for shape, weights in alike.items():
                updates = orthogonal(torch.stack(self._directions(weights, group["momentum"])))
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                scale = 0.2 * math.sqrt(max(shape))
                torch._foreach_add_(weights, updates.unbind(), alpha=-group["lr"] * scale)
        return loss

    def _directions(self, weights: Sequence[Tensor], momentum: float) -> list[Tensor]:
        """Of each weight its gradient, moved towards the mean of the past ones."""
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        for weight in weights:
            if not self.state[weight]:
                self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
        means = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return list(torch._foreach_lerp(gradients, means, momentum))


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices [n, rows, columns] with singular values near 1 (0.7 to 1.2) in place of their own.

    Newton and Schulz's iteration, with the coefficients of Muon's author; values far below the largest one
    stay below 1.
    """
    turned = matrices.shape[1] > matrices.shape[2]
    found = matrices.mT if turned else matrices
    # The spectral norm is at most Frobenius's.
    found = found / torch.linalg.matrix_norm(found, keepdim=True).clamp(min=_EPSILON)
    first, second, third = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = found @ found.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=second, alpha=third)
        found = torch.baddbmm(found, polynomial, found, beta=first)
    return found.mT if turned else found
