"""Failures of ArgusVLM's own parts."""

from __future__ import annotations

from vlmopt.errors import UsageError


class InputError(UsageError, ValueError):
    """A prompt, picture or checkpoint that the model cannot take.

    Also a ValueError, as transformers and vLLM expect of bad input.
    """
