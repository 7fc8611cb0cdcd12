"""JSON Schemas of specs and rules, so that an editor completes and checks the YAML.

`python -m vlmopt.schemas DIR` writes them; those in docs/schema are made this way.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vlmopt.rules import Rule
from vlmopt.specs import Spec

_MODELS: dict[str, type[BaseModel]] = {"rule": Rule, "spec": Spec}


def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one kind of file: `rule` or `spec`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_MODELS[kind].model_json_schema(by_alias=True, mode="validation"),
    }


def schema_files() -> dict[str, str]:
    """File name -> text, of every schema."""
    return {f"{kind}.schema.json": json.dumps(schema(kind), indent=2) + "\n" for kind in _MODELS}


if __name__ == "__main__":
    for name, text in schema_files().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
