"""The traces that vLLM's own profiler leaves, kept beside a profile."""

from __future__ import annotations

from pathlib import Path

from vlmopt.errors import UsageError
from vlmopt.whole import write_whole

_FRONTEND = "async_llm"


def keep(folder: Path, out: Path) -> list[Path]:
    """Moves the traces in `folder` beside `out`: `NAME.trace.json`, and of a server's frontend its own.

    They open in Perfetto and in Chrome's tracing page.

    Raises:
        UsageError: there is none.
    """
    found = sorted(folder.glob("*.json"))
    if not found:
        raise UsageError(
            "vLLM's profiler left no trace: this build of torch or vLLM cannot make one; leave --trace out"
        )
    kept = []
    for number, path in enumerate(found):
        part = ".frontend" if _FRONTEND in path.name else f".{number}" if number else ""
        target = out.with_suffix(f"{part}.trace.json")
        write_whole(target, path.read_text("utf-8"))
        kept.append(target)
    return kept
