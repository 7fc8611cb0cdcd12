"""Where the files that come with vlmopt lie: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def rules_folder() -> Path:
    """The folder of the rules that come with vlmopt."""
    return _shipped("rules")


def specs_folder() -> Path:
    """The folder of the model specs that come with vlmopt."""
    return _shipped("model_specs")


def golden_folder() -> Path:
    """The folder of the golden outputs that come with vlmopt."""
    return _shipped("golden_outputs")


def runtime_folder() -> Path:
    """The folder of the files that a fork may carry."""
    return _PACKAGE / "runtime"


def _shipped(name: str) -> Path:
    # The wheel's copy first: beside an installed package, `rules/` could be anybody's.
    inside = _PACKAGE / "_data" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
