"""Makes seeded weights for a small model folder, under the names that the hub's checkpoints have.

    python -m vlmopt.engine.weights PLAN      (a `WeightPlan` as JSON)

Names and shapes are read off transformers' own model of the folder, made without memory. A tensor's values
depend on the seed, its name and its shape alone: matrices are N(0, 1 / fan in), so that they keep the
variance of their input, embeddings N(0, 1), norms near 1, biases near 0. vLLM's dummy weights would be so
small that every prompt gets the same answer.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers.core_model_loading import revert_weight_conversion


@dataclass(frozen=True)
class WeightPlan:
    """What to make, from where.

    `folder` holds the configuration of transformers' own model; `out` is the hub checkpoint's file, and
    `own_out`, where the two layouts differ, a file under the names that transformers itself saves.
    `names` maps those names to the hub's: (pattern, replacement), of which the first that matches counts.
    `imports` is a module that makes it known to transformers.
    Tensors that are given one name are joined along their first dimension, in the order of the pairs.
    `gains` multiplies the values of tensors whose name a pattern is found in.
    """

    folder: str
    model_class: str
    out: str
    own_out: str | None
    seed: int
    gains: Sequence[tuple[str, float]]
    names: Sequence[tuple[str, str]]
    imports: str | None = None


def main(plan: WeightPlan) -> None:
    """Writes the files of a plan."""
    if plan.imports is not None:
        importlib.import_module(plan.imports)
    tensors = {
        name: _values(plan, name, tuple(tensor.shape)).to(tensor.dtype)
        for name, tensor in sorted(_checkpoint(plan).items())
    }
    if plan.own_out:
        save_file(tensors, plan.own_out, {"format": "pt"})
    save_file(hub_layout(tensors, plan.names), plan.out, {"format": "pt"})


def _checkpoint(plan: WeightPlan) -> dict[str, torch.Tensor]:
    """The tensors that transformers saves of the model, without values."""
    config = transformers.AutoConfig.from_pretrained(plan.folder)
    with torch.device("meta"):
        model = getattr(transformers, plan.model_class).from_config(config, dtype=config.dtype)
    tied = set(model.all_tied_weights_keys)
    state = {name: value for name, value in model.state_dict().items() if name not in tied}
    saved: dict[str, torch.Tensor] = revert_weight_conversion(model, state)
    return {name: value for name, value in saved.items() if value.is_floating_point()}


def _values(plan: WeightPlan, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    seed = int.from_bytes(hashlib.sha256(f"{plan.seed} {name}".encode()).digest()[:8], "little")
    noise = np.random.default_rng(seed).standard_normal(shape, np.float32)
    if "embed" in name and "patch_embed" not in name and not name.endswith("bias"):
        values = noise
    elif len(shape) < 2:
        values = np.float32(0.1) * noise + np.float32(0 if name.endswith("bias") else 1)
    else:
        values = noise * np.float32(noise[0].size ** -0.5)
    gain = next((gain for pattern, gain in plan.gains if re.search(pattern, name)), 1)
    return torch.from_numpy(values * np.float32(gain))


def hub_layout(
    tensors: Mapping[str, torch.Tensor], names: Sequence[tuple[str, str]]
) -> dict[str, torch.Tensor]:
    """The tensors under the hub's names, joined where several of them are one there."""
    parts: dict[str, list[tuple[int, torch.Tensor]]] = {}
    for name, tensor in tensors.items():
        hub, order = name, 0
        for index, (pattern, replacement) in enumerate(names):
            hub, hits = re.subn(pattern, replacement, name)
            if hits:
                order = index
                break
        parts.setdefault(hub, []).append((order, tensor))
    return {
        hub: torch.cat([tensor for _, tensor in sorted(found, key=lambda part: part[0])])
        if len(found) > 1
        else found[0][1]
        for hub, found in parts.items()
    }


def _read(text: str) -> WeightPlan:
    plan: dict[str, Any] = json.loads(text)
    return WeightPlan(**plan)


if __name__ == "__main__":
    main(_read(sys.argv[1]))
