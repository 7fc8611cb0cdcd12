"""A small ArgusVLM with weights by chance, at which the pictures make a difference."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch

from vlmopt.argus.build import build

# The programs of the study import each other as a script's neighbours.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
collect_ignore = [] if importlib.util.find_spec("matplotlib") else ["test_study.py"]

# Threads that wait for each other on a busy machine take many times longer than one.
torch.set_num_threads(1)


def lively(model, seed=0):
    """Draws all weights anew, large enough that answers depend on the picture and do not repeat one token."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=random)
            if weight.ndim > 1:
                weight.copy_(noise * (0.1 if "embed" in name else 2 * weight[0].numel() ** -0.5))
            else:
                weight.copy_(0.1 * noise + (1 if "norm" in name and name.endswith("weight") else 0))
    return model


@pytest.fixture(scope="session")
def tiny():
    """(model, processor) of the smallest member."""
    model, processor = build("argusvlm-tiny")
    return lively(model), processor


@pytest.fixture(scope="session")
def checkpoint(tiny, tmp_path_factory):
    """The folder that `tiny` is saved in."""
    folder = tmp_path_factory.mktemp("argusvlm-tiny")
    for part in tiny:
        part.save_pretrained(folder)
    return folder
