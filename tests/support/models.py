"""The models that tests run: every spec that describes a small model folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from vlmopt.small import requests_of, small_of, write_small_folder
from vlmopt.specs import list_specs, load_spec

PROMISED = Path(__file__).parents[1] / "promised.yaml"


@dataclass(frozen=True)
class Model:
    """What tests must know of a model, read from its spec."""

    name: str
    title: str
    tokenizer: str
    trust_remote_code: bool
    image: str
    prompt: str
    processor_kwargs: Sequence[Mapping[str, Any]]

    def prompt_for(self, images: int) -> str:
        """The model's own question about `images` images, with one placeholder for each."""
        return self.prompt.format(images=self.image * images)


def model_names() -> list[str]:
    """The names of all models with a small folder, sorted."""
    return [spec.name for spec in list_specs() if spec.small]


def engine_params(test: str) -> list[ParameterSet]:
    """The models of a test with whole engines, from promised.yaml; those of the long runs are marked so."""
    models = yaml.safe_load(PROMISED.read_text("utf-8"))["engines"][test]
    return [
        pytest.param(name, marks=[pytest.mark.long] if when == "long" else [])
        for when, names in models.items()
        for name in names
    ]


def load_model(name: str) -> Model:
    """The facts of one model."""
    spec = load_spec(name)
    requests, small = requests_of(spec), small_of(spec)
    return Model(
        spec.name,
        spec.title,
        small.tokenizer,
        small.trust_remote_code,
        requests.image,
        requests.prompt,
        requests.processor_kwargs,
    )


def build_model_folder(name: str, into: Path) -> Path:
    """Writes the small model folder of `name` below `into`, without weights, and returns it."""
    return write_small_folder(load_spec(name), into)
