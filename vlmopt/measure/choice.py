"""An option that is one of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from vlmopt.errors import UsageError

Word = TypeVar("Word", bound=str)


def one_of(text: str, words: Sequence[Word], what: str) -> Word:
    """Raises UsageError, which names them all, for another text than one of the words."""
    for word in words:
        if text == word:
            return word
    raise UsageError(f"there is no {what} {text!r}; choose {', '.join(words[:-1])} or {words[-1]}")
