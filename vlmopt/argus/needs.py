"""What this part needs beside vlmopt's own dependencies."""

from __future__ import annotations

from importlib.util import find_spec

from vlmopt.errors import UsageError

_NEEDED = ("torch", "torchvision", "transformers", "accelerate", "PIL", "numpy")


def check() -> None:
    """Raises UsageError, which says what is missing, where something is."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(f"ArgusVLM needs {', '.join(missing)}: install them (uv sync --group argus)")
