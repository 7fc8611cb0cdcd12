"""Names that the shell completes. Files are listed, not read: a key press must not wait."""

from __future__ import annotations

from collections.abc import Iterable

from vlmopt.folders import rules_folder, specs_folder


def models(incomplete: str) -> list[str]:
    """Names of the specs that begin so."""
    return _starting(incomplete, (path.stem for path in specs_folder().glob("*.yaml")))


def recipe(incomplete: str) -> list[str]:
    """Ids of the rules that begin so."""
    return _starting(incomplete, (path.stem for path in rules_folder().glob("*.yaml")))


def recipes(incomplete: str) -> list[str]:
    """The same for the last of a comma-separated list."""
    head, comma, last = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in recipe(last)]


def levels(incomplete: str) -> list[str]:
    """The levels of `--allow`."""
    return _starting(incomplete, ("exact", "bounded", "approximate"))


def verify_levels(incomplete: str) -> list[str]:
    """The levels of `verify`."""
    return _starting(incomplete, ("processor", "tower", "engine"))


def engines(incomplete: str) -> list[str]:
    """What `--engine` of `profile` takes."""
    return _starting(incomplete, ("offline", "serve"))


def dtypes(incomplete: str) -> list[str]:
    """What `--dtype` of `profile` and `bench` takes."""
    return _starting(incomplete, ("bfloat16", "float16", "float32"))


def sources(incomplete: str) -> list[str]:
    """The one source that has a name; folders and files are completed by the shell."""
    return _starting(incomplete, ("installed",))


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
