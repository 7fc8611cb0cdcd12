"""The models that tests run: every spec that describes a small model folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet

from vlmopt.small import requests_of, small_of, write_small_folder
from vlmopt.specs import Spec, list_specs, load_spec

PROMISED = Path(__file__).parents[1] / "promised.yaml"


def _promised(test: str) -> dict[str, list[str]]:
    models: dict[str, list[str]] = yaml.safe_load(PROMISED.read_text("utf-8"))["engines"][test]
    return models


@dataclass(frozen=True)
class Model:
    """What tests must know of a model, read from its spec."""

    name: str
    title: str
    tokenizer: str | None
    trust_remote_code: bool
    image: str
    prompt: str
    processor_kwargs: Sequence[Mapping[str, Any]]

    def prompt_for(self, images: int) -> str:
        """The model's own question about `images` images, with one placeholder for each."""
        return self.prompt.format(images=self.image * images)


def own_specs() -> list[Spec]:
    """The specs of vLLM's own models, by name."""
    return [spec for spec in list_specs() if spec.plugin is None]


def own_names() -> list[str]:
    """The names of vLLM's own models."""
    return [spec.name for spec in own_specs() if spec.small]


def model_names() -> list[str]:
    """The names of all models with a small folder: vLLM's own by name, then those of plug-ins."""
    own = own_specs()
    others = [spec for spec in list_specs() if spec.plugin is not None]
    return [spec.name for spec in [*own, *others] if spec.small]


def golden_names() -> list[str]:
    """The names of all models with golden outputs."""
    return sorted(name for names in _promised("golden").values() for name in names)


def engine_params(test: str) -> list[ParameterSet]:
    """The models of a test with whole engines, from promised.yaml; those of the long runs are marked so."""
    models = _promised(test)
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
