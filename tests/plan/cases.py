"""A small tree, a model in it, and rules made on the spot."""

from pathlib import Path
from typing import Any

import yaml

from vlmopt.plan import Plan, RulePlan, make_plan
from vlmopt.rules import load_rules
from vlmopt.specs import Spec

from .memory_tree import MemoryTree

MODEL = "vllm/models/tiny.py"
UTILS = "vllm/utils.py"

FILES = {
    MODEL: '''\
import torch


class Tiny:
    """A tiny model."""

    def embed(self, pixels):
        scaled = pixels / 255  # to floats
        return self.tower(scaled)


class TinyProcessor:
    def call(self, images):
        return resize(images, size=self.size)
''',
    UTILS: "def batch(items):\n    return [move(item, device) for item in items]\n",
}

SPEC = Spec.model_validate(
    {
        "name": "tiny-1b",
        "title": "Tiny 1B",
        "architecture": "TinyForAll",
        "model": {
            "module": MODEL,
            "class": "Tiny",
            "processor_module": MODEL,
            "processor_class": "TinyProcessor",
            "evil": "vllm/../../etc/passwd.py",
        },
        "images": {
            "geometry": "fixed",
            "library": "pillow",
            "convert": "before-resize",
            "resample": "bicubic",
            "outputs": {"pixel_values": "pixels", "pixel_mask": "mask"},
        },
    }
)

SCALE = {
    "file": "${model.module}",
    "within": "class ${model.class} > def embed",
    "match": "$x = pixels / 255",
}
RESIZE = {
    "file": "${model.processor_module}",
    "within": "class ${model.processor_class} > def call",
    "match": "resize(images, $...rest)",
}
MOVE = {"file": UTILS, "match": "move(item, device)"}

NORMALIZE = SCALE | {"replace": "$x = table(pixels)", "imports": ["from vllm.vlmopt_runtime import table"]}
FAST_RESIZE = RESIZE | {"replace": "fast_resize(images, $...rest)"}
PINNED = MOVE | {"replace": "move(item, device, pinned=True)"}


def write_rule(folder: Path, name: str, *edits: dict[str, Any], **keys: Any) -> None:
    """Writes `folder/NAME.yaml`; `contract` is exact unless given."""
    data = {"id": name, "title": f"The {name} rule", "why": "It is faster.", "contract": "exact"}
    text = yaml.safe_dump({**data, **keys, "edits": list(edits)}, sort_keys=False)
    (folder / f"{name}.yaml").write_text(text)


def plan(folder: Path, tree: MemoryTree | None = None, spec: Spec = SPEC, **options: Any) -> Plan:
    """The plan of the folder's rules, on the small tree unless another is given."""
    return make_plan(tree or MemoryTree(FILES), spec, load_rules(folder), **options)


def statuses(made: Plan) -> dict[str, tuple[str, str]]:
    """Rule id -> (status, reason)."""
    return {one.rule.id: (one.status.value, one.reason) for one in made.rules}


def of(made: Plan, name: str) -> RulePlan:
    """The plan of one rule."""
    return next(one for one in made.rules if one.rule.id == name)
