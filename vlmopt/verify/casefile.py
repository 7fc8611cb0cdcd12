"""A failing case as a folder: what it takes to run it again, and its images to look at.

case.json         the level, the seed, the case and how the two sides differed
request-1-image-1.png ...
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vlmopt.errors import UsageError
from vlmopt.mistakes import first_mistake
from vlmopt.verify.images import ARRAYS, ImageCase

CASE_NAME = "case.json"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class CaseFile:
    """What `case.json` says. `case` is plain data, read again with `decode`."""

    model: str
    vllm: str
    level: str
    part: str
    seed: int
    case: Any
    breaches: list[str]
    culprit: str | None = None


def write_case(folder: Path, file: CaseFile, images: Sequence[tuple[str, ImageCase]]) -> None:
    """Writes a failing case into `folder`, which is made; `images` are named without an ending.

    Raises:
        UsageError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("request-*"):
            old.unlink()
        for name, image in images:
            _write_image(folder, name, image)
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(file)}, indent=2, ensure_ascii=False)
        (folder / CASE_NAME).write_text(text + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the failing case to {folder}: {error.strerror or error}") from None


def read_case(folder: Path) -> CaseFile:
    """Reads a folder that `write_case` wrote.

    Raises:
        UsageError: there is no such case.
    """
    path = folder / CASE_NAME
    try:
        data = json.loads(path.read_text("utf-8"))
        if data.pop("format") != FORMAT:
            raise ValueError("another format")
        return TypeAdapter(CaseFile).validate_python(data)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a folder that verify wrote") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is damaged, or another vlmopt wrote it") from None


def encode(case: Any) -> Any:
    """A case (a dataclass, or a tuple of them) as plain data."""
    if isinstance(case, tuple):
        return [encode(each) for each in case]
    return dataclasses.asdict(case)


def decode(kind: Any, data: Any, where: Path) -> Any:
    """The case that `encode` made `data` of; `kind` is its type. Raises UsageError for other data."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        place, wrong = first_mistake(error)
        raise UsageError(f"{where / CASE_NAME}: case.{place}: {wrong.lower()}") from None


def _write_image(folder: Path, name: str, image: ImageCase) -> None:
    if image.form in ARRAYS or image.form == "pil":
        kind = "jpg" if image.mode == "CMYK" else "png"
        image.picture().save(folder / f"{name}.{kind}")
    else:
        (folder / f"{name}.{image.form.lower()}").write_bytes(image.build())
