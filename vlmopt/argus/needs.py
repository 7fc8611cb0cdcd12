"""What ArgusVLM in transformers needs beside vlmopt's own dependencies."""

from __future__ import annotations

from vlmopt import needs

_MODULES = ("torch", "torchvision", "transformers", "accelerate", "PIL", "numpy")


def argus() -> None:
    """Raises UsageError, which says what is missing, where something is."""
    needs.check("ArgusVLM", _MODULES, "argus")
