"""What the study compares: argusvlm-tiny in other box formats, and with language models of other sizes.

All arms begin with one vision encoder that has learnt to see, as the larger members of the family do;
language model and projector begin from nothing. So a run of minutes shows how boxes are learnt, not seeing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vlmopt.argus import checkpoint
from vlmopt.argus.boxes import CodebookFormat
from vlmopt.argus.build import build_config, build_processor, count_parameters
from vlmopt.argus.examples import Task
from vlmopt.argus.family import Member, load_member
from vlmopt.whole import write_whole

BASE = "argusvlm-tiny"
ENCODER: Path | None = checkpoint.SHIPPED
TASKS: tuple[Task, ...] = ("dense-caption", "grounding")
"""What is learnt: all that is answered with boxes."""


@dataclass(frozen=True)
class Arm:
    """One of the formats, or one of the sizes.

    Attributes:
        kind, name: see `argus_record.Run`.
        box_format: settings in place of the member's own; a format of which there is only the name is learnt
            from the data, as `vlmopt argus train --boxes` does it.
        width, depth: of the language model, as a share of the member's own.
    """

    kind: str
    name: str
    box_format: Mapping[str, Any] | None = None
    width: float = 1
    depth: float = 1

    @property
    def form(self) -> str | None:
        """The name for `--boxes`, where the format is learnt."""
        return self.name if self.box_format == {"name": CodebookFormat.name} else None

    def key(self, seed: int) -> str:
        """The name of a run."""
        return f"{self.kind}-{self.name}-seed{seed}"

    def member(self) -> Member:
        """The member of the family that is trained."""
        base = load_member(BASE)
        settings = _settings(base)
        if self.box_format and not self.form:
            settings["box_format"] = dict(self.box_format)
        config = settings["config"]
        _resize(config["text_config"], self.width, self.depth)
        config["projector_hidden_size"] = round(config["projector_hidden_size"] * self.width)
        changed = Member.model_validate(settings)
        config["text_config"]["vocab_size"] = len(build_processor(changed).tokenizer)
        parameters = count_parameters(build_config(Member.model_validate(settings)))
        settings |= {"name": f"{BASE}-{self.name}", "title": f"{base.title}, {self.name}"}
        settings["training"][2]["tasks"] = TASKS
        return Member.model_validate(settings | {"parameters": parameters})

    def write(self, folder: Path) -> Path:
        """The YAML file that `vlmopt argus train --model` takes."""
        path = folder / f"{self.name}.yaml"
        write_whole(path, yaml.safe_dump(_settings(self.member()), sort_keys=False))
        return path


def _settings(member: Member) -> dict[str, Any]:
    """A member as its YAML file has it."""
    settings = member.model_dump(mode="json")
    # JSON has no numbers for keys.
    return settings | {"training": {int(stage): recipe for stage, recipe in settings["training"].items()}}


def _resize(part: dict[str, Any], width: float, depth: float) -> None:
    """Scales a transformer by whole heads, which stay as wide as they are."""
    heads = part["num_attention_heads"]
    wanted = max(round(heads * width), 1)
    for name in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"):
        if name in part:
            part[name] = part[name] * wanted // heads
    part["num_hidden_layers"] = max(round(part["num_hidden_layers"] * depth), 1)


FORMATS = (
    # Two decimals are as fine as the member's 100 bins.
    Arm("format", "float", {"name": "float", "digits": 2}),
    Arm("format", "bin"),
    Arm("format", "codebook", {"name": "codebook"}),
)
SIZES = (
    Arm("size", "small", width=0.5, depth=0.5),
    Arm("size", "tiny"),
    Arm("size", "large", width=1.5, depth=1.5),
)
