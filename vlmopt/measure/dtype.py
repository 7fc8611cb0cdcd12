"""The type that a measured model computes in."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from typing import Literal, get_args

from vlmopt.errors import UsageError
from vlmopt.measure.choice import one_of

Dtype = Literal["bfloat16", "float16", "float32"]

# Compact models are published in bfloat16. A CPU without instructions for it takes several times as long for
# every matrix product, and a measurement there would show little else.
_ASK = """
import torch
try:
    native = torch.ops.mkldnn._is_mkldnn_bf16_supported()
except AttributeError:
    native = True
print("bfloat16" if native or torch.accelerator.is_available() else "float32")
"""


def dtype_of(text: str | None) -> Dtype | None:
    """Raises UsageError, which names the types, for another text than one of them."""
    types: tuple[Dtype, ...] = get_args(Dtype)
    return None if text is None else one_of(text, types, "type")


@lru_cache(maxsize=1)
def usual_dtype() -> Dtype:
    """bfloat16 or, on a CPU without arithmetic for it, float32. A process with torch is asked.

    Raises:
        UsageError: torch cannot be imported.
    """
    answer = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False)
    lines = answer.stdout.split()
    if answer.returncode or not lines:
        last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UsageError(f"torch does not start here: {last}; reinstall it (uv sync --group engine)")
    return "float32" if lines[-1] == "float32" else "bfloat16"
