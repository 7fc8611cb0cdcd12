"""What an engine's processes write to, and what ends with them."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

_SHORT = "/tmp"
_SOCKET_PATH = 107
"""Bytes that the path of a Unix socket may have."""
_SOCKET_NAME = len("/00000000-0000-0000-0000-000000000000")
"""Of vLLM's sockets between its processes."""


class Scratch:
    """A folder for files, and one for sockets: the same, unless its path is too long for a socket's.

    vLLM leaves its sockets behind where it is ended, and some files wherever it ends.
    """

    def __init__(self, prefix: str) -> None:
        with ExitStack() as stack:
            self.path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))
            self.sockets = self.path
            if len(os.fsencode(self.path)) + _SOCKET_NAME > _SOCKET_PATH:
                short = tempfile.TemporaryDirectory(prefix="vlmopt-", dir=_SHORT)
                self.sockets = Path(stack.enter_context(short))
            self._stack = stack.pop_all()

    def cleanup(self) -> None:
        """Removes both. Doing so twice does nothing."""
        self._stack.close()
