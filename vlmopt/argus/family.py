"""The members of the family: named configurations, as data in `configs/`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vlmopt.argus.errors import InputError
from vlmopt.argus.examples import Task
from vlmopt.mistakes import first_mistake

CONFIGS = Path(__file__).parent / "configs"


class Parameters(BaseModel):
    """How many parameters there are, counted once where the language model shares its embeddings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vision: Annotated[int, Field(ge=1)]
    projector: Annotated[int, Field(ge=1)]
    language: Annotated[int, Field(ge=1)]
    total: Annotated[int, Field(ge=1)]


class Stage(BaseModel):
    """How a member is trained in one stage.

    Attributes:
        tasks: the kinds of examples that are learnt.
        learns: `projector`, while the rest stays as it is, or `all`.
        steps, batch: how many steps of how many pictures; each picture comes with all its examples.
        learning_rate: the highest; it rises over the first twentieth of the steps and falls as a cosine.
        optimizer: `adamw`, or `muon` for a model that begins from nothing, see `training.optimizer`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: tuple[Task, ...]
    learns: Literal["projector", "all"]
    steps: Annotated[int, Field(ge=1)]
    batch: Annotated[int, Field(ge=1)]
    learning_rate: Annotated[float, Field(gt=0)]
    optimizer: Literal["adamw", "muon"] = "adamw"


class Member(BaseModel):
    """One named configuration.

    Attributes:
        config: arguments of `ArgusVLMConfig`; `vocab_size` counts the tokens that this family adds.
        tokenizer: `scenes` for one that is learnt from the scenes, or a hub id that says whose is needed.
        box_format: settings of the box format, see `vlmopt.argus.boxes.load_format`.
        max_images: how many pictures a prompt may have; None for no limit.
        training: the two stages: alignment of pictures with text, and instructions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    parameters: Parameters
    config: dict[str, Any]
    tokenizer: str
    box_format: dict[str, Any]
    max_images: int | None = None
    training: dict[Literal[1, 2], Stage]


def member_names() -> list[str]:
    """The names of all members, sorted."""
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


@lru_cache(maxsize=16)
def load_member(name: str) -> Member:
    """A member by name, or by the path of a file like those in `configs/`.

    Raises:
        InputError: there is none of that name, or the file is malformed.
    """
    path = CONFIGS / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
    if not path.is_file():
        raise InputError(
            f"no ArgusVLM is named {name!r}: choose {', '.join(member_names())}, or give a YAML file"
        )
    try:
        return Member.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not YAML: {error}") from error
    except ValidationError as error:
        place, wrong = first_mistake(error)
        raise InputError(f"{path}: {place}: {wrong}") from error
