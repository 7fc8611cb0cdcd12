"""The models that tests run: every spec that describes a small model folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlmopt.small import requests_of, small_of, write_small_folder
from vlmopt.specs import list_specs, load_spec


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
