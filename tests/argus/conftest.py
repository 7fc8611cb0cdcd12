"""A small ArgusVLM with weights by chance, at which the pictures make a difference."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
import yaml

from vlmopt.argus.build import build
from vlmopt.argus.family import CONFIGS

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


def smaller_member(folder, **training):
    """A member that is smaller than the smallest, as a file in `folder`; `training` is of both stages."""
    settings = yaml.safe_load((CONFIGS / "argusvlm-tiny.yaml").read_text("utf-8"))
    for part in ("vision_config", "text_config"):
        settings["config"][part] |= {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1}
        settings["config"][part]["num_attention_heads"] = 2
    settings["config"]["text_config"]["num_key_value_heads"] = 2
    settings["config"]["projector_hidden_size"] = 64
    for stage in settings["training"].values():
        stage.update(training)
    path = folder / "smaller.yaml"
    path.write_text(yaml.safe_dump(settings), "utf-8")
    return str(path)


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
