"""What is wrong with data that a schema refused."""

from __future__ import annotations

from pydantic import ValidationError


def first_mistake(error: ValidationError, whole: str = "the file") -> tuple[str, str]:
    """Where the first mistake is (`cases.photo.prompt`, or `whole`), and what is wrong there."""
    first = error.errors()[0]
    return ".".join(map(str, first["loc"])) or whole, first["msg"]
