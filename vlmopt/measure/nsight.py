"""Timelines of a device by Nsight Systems, where its `nsys` is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import vlmopt
from vlmopt.engine.child import Child
from vlmopt.errors import UsageError

_OPTIONS = (
    "--trace=cuda,nvtx,osrt",
    "--sample=none",
    "--cpuctxsw=none",
    "--trace-fork-before-exec=true",
    "--force-overwrite=true",
)
_LONGEST_S = 1800


def command(program: Sequence[str], out: Path) -> list[str]:
    """The command that records what `program` does on the device, in `NAME.nsys-rep`."""
    return ["nsys", "profile", *_OPTIONS, f"--output={out.with_suffix('')}", *program]


def missing(arguments: Sequence[str], out: Path) -> str | None:
    """What to say where `nsys` is not installed, with the command that it would run; None where it is."""
    if shutil.which("nsys") is not None:
        return None
    line = shlex.join(command(["vlmopt", "profile", *arguments], out))
    return f"no device timeline: nsys (Nsight Systems) is not installed here; it would run: {line}"


def record(arguments: Sequence[str], out: Path) -> list[Path]:
    """Runs `vlmopt profile` with `arguments` under nsys and returns the file of the timeline.

    Raises:
        UsageError: nsys is not here, or failed.
    """
    if (line := missing(arguments, out)) is not None:
        raise UsageError(line)
    out.parent.mkdir(parents=True, exist_ok=True)
    target = out.with_suffix(".nsys-rep")
    with tempfile.TemporaryDirectory(prefix="vlmopt-nsys-") as scratch:
        program = [
            sys.executable,
            "-m",
            "vlmopt.cli",
            "profile",
            *arguments,
            "--out",
            f"{scratch}/profile.json",
        ]
        home = str(Path(vlmopt.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])}
        child = Child(command(program, out.resolve()), environment, Path(scratch) / "log", patience=20)
        try:
            code = child.exit_code(_LONGEST_S)
            output = child.tail()
        finally:
            child.end()
    if code or not target.is_file():
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")
        raise UsageError(
            f"nsys ended with exit code {code}; its last line was: {last[:300]}; leave --nsys out"
        )
    return [target]
