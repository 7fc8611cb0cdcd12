"""Flame graphs of running processes: austin samples their Python stacks from outside, children included."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from vlmopt.engine.child import Child
from vlmopt.errors import UsageError
from vlmopt.measure.flame_svg import flame_svg
from vlmopt.whole import write_whole

INSTALL = "install austin-dist 3.7 (uv sync --group test), or leave the flame graph out with --no-flame"
SECONDS, LEAST = 4.0, 5
"""How long requests are sampled, and how many at least."""
_INTERVAL = "1ms"
_ATTACH_S, _STOP_S = 1, 5
_INVALID = ":INVALID"  # a stack that changed while it was read
_OWN = "vlmopt/measure/probe.py"
_SAMPLE = re.compile(r"P(\d+);T\w*:(\d+)(?:;(.*))? (\d+)$")


def find(wanted: bool | None) -> Path | None:
    """Austin's program; None where it is not wanted, or not there and not asked for.

    Raises:
        UsageError: it is asked for and not there.
    """
    if wanted is False:
        return None
    found = shutil.which("austin", path=str(Path(sys.executable).parent)) or shutil.which("austin")
    if found is None and wanted:
        raise UsageError(f"a flame graph is drawn by austin, which is not here: {INSTALL}")
    return None if found is None else Path(found)


def draw(austin: Path, pid: int, request: Callable[[], object], out: Path, *, title: str) -> list[Path]:
    """Samples the process `pid` and its children while requests run, and writes the graph beside `out`.

    Returns the files: `NAME.collapsed`, one stack a line with its microseconds of CPU, and `NAME.svg`.

    Raises:
        UsageError: austin cannot look into the processes.
    """
    with tempfile.TemporaryDirectory(prefix="vlmopt-flame-") as scratch:
        samples = Path(scratch) / "samples"
        command = [str(austin), "-C", "-s", "-i", _INTERVAL, "-o", str(samples), "-p", str(pid)]
        child = Child(command, {}, Path(scratch) / "log", patience=_STOP_S)
        try:
            _check_alive(child, _ATTACH_S)
            start, done = time.monotonic(), 0
            while done < LEAST or time.monotonic() - start < SECONDS:
                request()
                done += 1
            _check_alive(child, 0)
        finally:
            child.end()
        stacks = collapse(samples.read_text("utf-8", "replace").splitlines(), pid)
    if not stacks:
        raise UsageError(f"austin saw no stack of process {pid}: {INSTALL}")
    collapsed, svg = out.with_suffix(".collapsed"), out.with_suffix(".svg")
    write_whole(collapsed, "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items())))
    write_whole(svg, flame_svg(stacks, title))
    return [collapsed, svg]


def collapse(lines: Iterable[str], pid: int) -> Counter[str]:
    """Microseconds of each stack in austin's output, outermost frame first, frames parted by semicolons.

    A frame is its file, from the package on, and its function; lines of one function are one frame. The first
    frames are the process (that of `pid`, or another) and the thread. Frames of the timers are left out.
    """
    stacks: Counter[str] = Counter()
    for line in lines:
        found = _SAMPLE.match(line)
        if found is None or found[3] is None or _INVALID in found[3]:
            continue
        process = "first process" if int(found[1]) == pid else "its engine process"
        thread = "main thread" if found[1] == found[2] else "other threads"
        frames = [_frame(frame) for frame in found[3].split(";") if _OWN not in frame]
        stacks[";".join([process, thread, *frames])] += int(found[4])
    return stacks


def _frame(text: str) -> str:
    file, _, place = text.partition(":")
    function = place.rpartition(":")[0] or place
    for root in ("/site-packages/", "/dist-packages/"):
        _, found, tail = file.rpartition(root)
        if found:
            return f"{tail}:{function}"
    # A fork and a checkout lie anywhere.
    for package in ("/vllm/", "/vlmopt/"):
        _, found, tail = file.rpartition(package)
        if found:
            return f"{package[1:]}{tail}:{function}"
    return f"{'/'.join(file.split('/')[-2:])}:{function}"


def _check_alive(child: Child, wait: float) -> None:
    """Raises UsageError when austin ends within `wait` seconds. It does not say when it is ready."""
    if (code := child.exit_code(wait)) is not None:
        lines = [line for line in child.tail().splitlines() if line.strip()]
        why = f"; its last line was: {lines[-1].strip()[:200]}" if lines else ""
        raise UsageError(
            f"austin cannot look into the process (exit code {code}){why}; it needs the right to trace "
            "processes of the same user; leave the flame graph out with --no-flame"
        )
