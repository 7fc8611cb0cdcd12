"""What measuring needs beside vlmopt's own dependencies."""

from __future__ import annotations

from importlib.util import find_spec

from vlmopt.errors import UsageError

_NEEDED = ("numpy", "PIL")


def check(command: str = "bench") -> None:
    """Raises UsageError, which says what is missing, where something is. All of it comes with a vLLM."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(f"{command} runs a real vLLM, and {', '.join(missing)} is missing: install vLLM")
