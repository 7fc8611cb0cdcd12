"""How many tokens an engine is started for. Imports nothing heavy: both sides of a pipe ask."""

from __future__ import annotations

import json
from pathlib import Path

LONGEST = 8192
"""Enough for four images of every model; less memory and time than what some models can do."""
_LANGUAGE = ("text_config", "llm_config")


def prompt_length(folder: Path) -> int:
    """Tokens of the longest prompt and answer of the model in `folder`: `LONGEST`, or its own limit if lower.

    A folder that does not say, or that cannot be read, gives `LONGEST`: vLLM then says what is wrong with it.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        parts = [config.get(name) or {} for name in _LANGUAGE]
        limits = [part.get("max_position_embeddings") for part in (*parts, config)]
    except (OSError, ValueError, AttributeError):
        return LONGEST
    return next((min(LONGEST, limit) for limit in limits if isinstance(limit, int) and limit > 0), LONGEST)
