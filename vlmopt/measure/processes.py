"""CPU time and memory of processes and of the machine, as Linux counts them in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM, _SESSION = 11, 12, 3  # fields of /proc/PID/stat behind the name
_RESET_PEAK = "5"


def session(leader: int) -> Iterator[int]:
    """The processes of a session: a child of ours with all that it has started."""
    for pid in _pids():
        fields = _stat(pid)
        if fields and int(fields[_SESSION]) == leader:
            yield pid


def cpu_seconds(leaders: Iterable[int]) -> float:
    """CPU time of this process and of the living processes of sessions."""
    own = os.times()
    ticks = 0
    for leader in leaders:
        for pid in session(leader):
            fields = _stat(pid)
            ticks += int(fields[_USER]) + int(fields[_SYSTEM]) if fields else 0
    return own.user + own.system + ticks / _TICK


def machine_seconds() -> tuple[float, float] | None:
    """CPU seconds that were used, and all that there were, of the processors that this process may run on.

    Used is also what the host of a virtual machine took away. None where the system does not say.
    """
    try:
        lines = (_PROC / "stat").read_text().splitlines()
    except OSError:
        return None
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    used = every = 0
    for line in lines:
        name, *numbers = line.split()
        if name in mine:
            user, nice, system, idle, waiting, interrupt, soft, stolen = map(int, numbers[:8])
            busy = user + nice + system + interrupt + soft + stolen
            used += busy
            every += busy + idle + waiting
    return (used / _TICK, every / _TICK) if every else None


def resident(leader: int) -> int:
    """Bytes of resident memory of a session now. Memory that processes share counts in each of them."""
    return _sum(leader, "VmRSS")


def peak(leader: int) -> int:
    """The most resident memory that each process of a session held, in bytes, added up."""
    return _sum(leader, "VmHWM")


def forget_peak(leader: int) -> bool:
    """Makes `peak` begin anew; False where the system does not allow it."""
    try:
        for pid in session(leader):
            (_PROC / str(pid) / "clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _sum(leader: int, what: str) -> int:
    kilobytes = 0
    for pid in session(leader):
        try:
            lines = (_PROC / str(pid) / "status").read_text().splitlines()
        except OSError:  # it has ended
            continue
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))
    return kilobytes * 1024


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; empty where it has ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
