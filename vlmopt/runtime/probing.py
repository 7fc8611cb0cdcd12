"""While the runtime asks stock's processor what it does, the recipes stand aside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Calls(threading.local):
    probing = False


_calls = _Calls()


@contextmanager
def stock_behaviour() -> Iterator[None]:
    """In this thread the processor behaves as stock's for as long as the context lasts."""
    outer, _calls.probing = _calls.probing, True
    try:
        yield
    finally:
        _calls.probing = outer


def is_probing() -> bool:
    """Whether this thread is within `stock_behaviour`."""
    return _calls.probing
