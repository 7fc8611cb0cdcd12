"""What some commands need beside vlmopt's own dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from vlmopt.errors import UsageError

_ENGINE = ("vllm", "transformers", "torch", "torchvision", "PIL", "numpy")


def engine(what: str) -> None:
    """For what runs a real vLLM. Raises UsageError, which says what is missing, where something is."""
    check(what, _ENGINE, "engine")


def check(what: str, modules: Sequence[str], group: str) -> None:
    """Raises UsageError where one of the modules, which the dependency group brings, is not installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise UsageError(f"{what} needs {', '.join(missing)}: install them (uv sync --group {group})")
