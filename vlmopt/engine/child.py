"""A child process that never outlives this one: its output in a file, the end of its whole group certain."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from vlmopt.errors import VlmoptError

TAIL = 1_000_000
KILLED_S = 20
# Leaves a guard behind in the command's process group, then becomes the command. The guard waits until the
# other end of a pipe is closed, which happens however the parent ends, then ends the group. A signal at the
# parent's death would not do: a vLLM that is starting does not heed SIGTERM.
_GUARDED = """
import os, signal, sys, time
pipe, patience = int(sys.argv[1]), float(sys.argv[2])
if not os.fork():
    if not os.fork():
        os.closerange(3, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.read(pipe, 1)
        if patience:
            os.killpg(0, signal.SIGTERM)
            time.sleep(patience)
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
os.wait()
os.close(pipe)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class ChildError(VlmoptError):
    """A child process did not start, ended or fell silent. `output` holds the end of what it wrote."""

    def __init__(self, what: str, output: str) -> None:
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
        super().__init__(f"{what}; its last line was: {last[:300]}" if last else what)
        self.output = output


class Child:
    """Runs `command` in a session of its own, with what it writes in `output`.

    When this process ends, whatever the reason, so does the command with all of its group: it is asked to,
    and killed `patience` seconds later.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        *,
        patience: float = 0,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._output = output
        self._patience = patience
        theirs, self._lifeline = os.pipe()
        try:
            with output.open("wb") as file:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _GUARDED, str(theirs), str(patience), *command],
                    cwd=output.parent,
                    env=environment,
                    pass_fds=[theirs, *pass_fds],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        finally:
            os.close(theirs)
        self.pid = self._process.pid
        self._ended = False

    def exit_code(self, wait: float = 0) -> int | None:
        """The exit code, negative for a signal; None where the process still runs after `wait` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(wait)
        return None

    def ending(self, wait: float = 0) -> str | None:
        """How the process ended, in words; None where it still runs after `wait` seconds."""
        code = self.exit_code(wait)
        if code == -signal.SIGKILL:
            return "was killed (signal 9; often for lack of memory)"
        return None if code is None else f"ended with exit code {code}"

    def tail(self) -> str:
        """The end of what the process wrote."""
        return self._output.read_text("utf-8", "replace")[-TAIL:]

    def end(self) -> None:
        """Ends the process and all of its group: asks first where there is patience, then kills."""
        if self._patience and self._process.poll() is None:
            self._process.terminate()
            self.exit_code(self._patience)
        self.kill()

    def kill(self) -> None:
        """Ends the process and all of its group at once. Again does nothing."""
        if self._ended:
            return
        self._ended = True
        # The guard is in the group, so that its number is not another's by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(KILLED_S)
        os.close(self._lifeline)


class Closing:
    """What is closed at the end of a `with` block."""

    def close(self) -> None:
        """Gives back what is held. Closing twice does nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
