"""The machine that a benchmark runs on, and how much of it others take meanwhile."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from vlmopt.engine.protocol import About
from vlmopt.fork.lock import own_version
from vlmopt.measure.bench_file import Machine
from vlmopt.measure.processes import cpu_seconds, machine_seconds

_PACKAGES = ("torch", "transformers", "pillow", "numpy", "numba")


def machine_of(about: About, vllm: str) -> Machine:
    """This machine, as the engine that answered `about` sees it; `vllm` is its version."""
    return machine_here(
        about.threads, device=about.device, accelerator=about.accelerator, versions={"vllm": vllm}
    )


def machine_here(
    threads: int,
    *,
    device: str = "cpu",
    accelerator: str | None = None,
    versions: Mapping[str, str] = MappingProxyType({}),
) -> Machine:
    """This machine, where each process has so many threads; `versions` are of further packages."""
    return Machine(
        cpu=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=platform.platform(terse=True),
        device=device,
        accelerator=accelerator,
        threads=threads,
        versions={"vlmopt": own_version(), **versions, "python": platform.python_version()} | _versions(),
    )


def _processor() -> str:
    """The processor's name, as the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


class Others:
    """The CPU time that others take, over stretches of time in which none of our processes ends.

    `leaders` are asked at both ends of a stretch for the sessions that are ours.
    """

    def __init__(self) -> None:
        self._others = self._every = 0.0
        self._seen = True

    def stretch(self, leaders: Iterable[int]) -> Callable[[], None]:
        """Begins a stretch; call what it returns at its end."""
        ours = list(leaders)
        machine, own = machine_seconds(), cpu_seconds(ours)

        def end() -> None:
            now, own_now = machine_seconds(), cpu_seconds(ours)
            if machine is None or now is None:
                self._seen = False
                return
            self._others += max(0.0, (now[0] - machine[0]) - (own_now - own))
            self._every += now[1] - machine[1]

        return end

    def share(self) -> float | None:
        """The share of the machine that others had, 0 to 1; None where the system does not say."""
        return min(1.0, self._others / self._every) if self._seen and self._every else None
