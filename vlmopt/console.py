"""Where output goes: results to stdout, messages to stderr, colour and progress on a terminal only."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Tick = Callable[[str, int, int], None]
"""Called with (what, done, total); a total of 0 means that it is not known."""

_PATIENCE = 1.0  # seconds that work may take before progress is shown


def coloured(stream: TextIO) -> bool:
    """Whether to write colour to a stream: a terminal, and NO_COLOR (no-color.org) not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    # FORCE_COLOR and its like are not asked: a pipe gets plain text. No wrapping where nobody sees columns.
    terminal = stream.isatty()
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=not coloured(stream),
        width=None if terminal else 10_000,
        highlight=False,
        markup=False,
        emoji=False,
    )


def keep(text: str) -> Path:
    """Writes text that is too long for the terminal into a file of its own, for the user to read."""
    with tempfile.NamedTemporaryFile("w", prefix="vlmopt-", suffix=".log", delete=False) as file:
        file.write(text)
    return Path(file.name)


def show(renderable: RenderableType, *, stream: TextIO | None = None) -> None:
    """Prints text or tables, by default on stdout. Into a pipe text goes as it is, and tables unpadded."""
    from rich.console import Group
    from rich.text import Text

    stream = stream or sys.stdout
    console = _console(stream)
    if isinstance(renderable, Group):
        for part in renderable.renderables:
            show(part, stream=stream)
    elif stream.isatty():
        # Lines of code and commands are left to the terminal, so that they can be copied whole.
        console.print(renderable, soft_wrap=isinstance(renderable, str | Text))
    elif isinstance(renderable, str | Text):
        print(renderable if isinstance(renderable, str) else renderable.plain, file=stream)
    else:
        with console.capture() as capture:
            console.print(renderable)
        for line in capture.get().splitlines():
            print(line.rstrip(), file=stream)


def show_json(value: Mapping[str, Any]) -> None:
    """Prints one JSON object on stdout: keys as given, two blanks of indent."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def say(message: str) -> None:
    """A message on stderr."""
    print(message, file=sys.stderr)


@contextmanager
def progress(label: str) -> Iterator[Tick]:
    """Shows a bar on stderr while the body runs, once that takes longer than a second, on a terminal only."""
    if not coloured(sys.stderr):
        yield lambda what, done, total: None
        return
    bar = _Bar(label)
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield bar.tick
    finally:
        timer.cancel()
        bar.stop()


class _Bar:
    def __init__(self, label: str) -> None:
        self._label = label
        self._lock = threading.Lock()
        self._state: tuple[str, int, int] = ("", 0, 0)
        self._live: Any = None
        self._task: Any = None
        self._over = False

    def tick(self, what: str, done: int, total: int) -> None:
        with self._lock:
            self._state = (what, done, total)
            self._draw()

    def start(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with self._lock:
            if self._over:
                return
            self._live = Progress(*columns, console=_console(sys.stderr), transient=True)
            self._task = self._live.add_task(self._label, total=None)
            self._live.start()
            self._draw()

    def stop(self) -> None:
        with self._lock:
            self._over = True
            if self._live is not None:
                self._live.stop()

    def _draw(self) -> None:
        if self._live is not None:
            what, done, total = self._state
            description = f"{self._label}: {what}" if what else self._label
            self._live.update(self._task, description=description, completed=done, total=total or None)
