"""Model folders that a real vLLM loads: everything real but the towers, which are shrunk; no weights."""

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ASSETS = Path(__file__).parents[1] / "assets"
MODELS = ASSETS / "models"


@dataclass(frozen=True)
class Model:
    """What ``meta.yaml`` of a model folder says.

    ``prompt`` holds ``{images}`` where the images go; ``image`` stands for one image there.
    ``processor_kwargs`` are arguments (``mm_processor_kwargs``) that a request may bring.
    ``serve`` asks for the tests that start whole servers with this model.
    """

    name: str
    title: str
    tokenizer: str
    trust_remote_code: bool
    image: str
    prompt: str
    processor_kwargs: Sequence[Mapping[str, Any]]
    serve: bool = False

    def prompt_for(self, images: int) -> str:
        """The model's own question about `images` images, with one placeholder for each."""
        return self.prompt.format(images=self.image * images)


def model_names() -> list[str]:
    """The names of all model folders, sorted."""
    return sorted(path.parent.name for path in MODELS.glob("*/meta.yaml"))


def load_model(name: str) -> Model:
    """Reads ``meta.yaml`` of the model folder `name`. Raises FileNotFoundError when there is none."""
    return Model(name=name, **yaml.safe_load((MODELS / name / "meta.yaml").read_text("utf-8")))


def build_model_folder(name: str, into: Path) -> Path:
    """Writes the model folder `name` below `into`, its tokenizer unpacked, and returns the folder.

    A hub folder's own Python files are kept here as ``NAME.py.txt``: they are the model's data, not our code.
    """
    model = load_model(name)
    folder = into / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in (MODELS / name).iterdir():
        if path.name != "meta.yaml":
            (folder / path.name.removesuffix(".txt")).write_bytes(path.read_bytes())
    packed = (ASSETS / "tokenizers" / f"{model.tokenizer}.json.xz").read_bytes()
    (folder / "tokenizer.json").write_bytes(lzma.decompress(packed))
    return folder
