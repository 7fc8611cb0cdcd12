"""Looks for a case that breaks a promise, with hypothesis, and shrinks it to a small one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from vlmopt.verify.compare import Difference

SHRINK_S = 45.0

T = TypeVar("T")


@dataclass(frozen=True)
class Found(Generic[T]):
    """A case that breaks the promise, and how.

    `stable` is False when the same case broke nothing when it was asked again.
    """

    case: T
    breaches: tuple[Difference, ...]
    stable: bool


class _BrokenError(Exception):
    """Raised inside hypothesis for a case that breaks the promise."""


class _Enough(BaseException):
    """Ends hypothesis when shrinking has taken its time; the smallest case so far is kept."""


def search(
    breaches_of: Callable[[T], list[Difference]],
    cases: st.SearchStrategy[T],
    *,
    examples: int,
    seed_value: int,
    tick: Callable[[int], None] = lambda done: None,
    shrinking: Callable[[], None] = lambda: None,
    simpler: Callable[[T], Iterable[T]] = lambda case: (),
    shrink_s: float = SHRINK_S,
) -> Found[T] | None:
    """Draws `examples` cases and asks for the breaches of each; the first that has any is shrunk.

    Args:
        breaches_of: compares one case on both sides; empty when nothing breaks the promise.
        cases: the request space.
        examples: how many cases are drawn.
        seed_value: the same seed draws the same cases.
        tick: called with the number of cases that were compared.
        shrinking: called when the first breach is found.
        simpler: the cases that are a step simpler than one; tried when hypothesis has shrunk what it can.
        shrink_s: seconds, for each of the two, after which the smallest case so far is taken.
    """
    best: Found[T] | None = None
    done = 0
    deadline = float("inf")
    simplest = False

    def attempt(case: T) -> None:
        nonlocal best, deadline, done, simplest
        if simplest:  # it begins every run, and was compared in the first
            simplest = False
            return
        if time.monotonic() > deadline:
            raise _Enough
        breaches = breaches_of(case)
        if best is None:
            done += 1
            tick(done)
        if breaches:
            if best is None:
                shrinking()
                deadline = time.monotonic() + shrink_s
            best = Found(case, tuple(breaches), stable=True)
            raise _BrokenError

    # A run for each example: within one run hypothesis follows each example with five that repeat most of it.
    for number in range(examples):
        simplest = number > 0
        run = settings(
            max_examples=1 + simplest,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        )(seed(f"{seed_value} {number}")(given(cases)(attempt)))
        try:
            run()
        except (_BrokenError, _Enough, Flaky, ExceptionGroup):
            assert best is not None
            break
    if best is None:
        return None
    best = _simplest(best, breaches_of, simpler, shrink_s)
    again = breaches_of(best.case)
    return Found(best.case, tuple(again) or best.breaches, stable=bool(again))


def _simplest(
    found: Found[T],
    breaches_of: Callable[[T], list[Difference]],
    simpler: Callable[[T], Iterable[T]],
    seconds: float,
) -> Found[T]:
    """Takes simpler cases that break the promise at the same stages, until there is none or time is over."""
    until = time.monotonic() + seconds
    stages = {breach.stage for breach in found.breaches}
    steps = [case for case in simpler(found.case) if case != found.case]
    at = missed = 0
    while missed < len(steps) and time.monotonic() < until:
        case = steps[at % len(steps)]
        breaches = breaches_of(case)
        if stages & {breach.stage for breach in breaches}:
            found, missed = Found(case, tuple(breaches), stable=True), 0
            steps = [other for other in simpler(case) if other != case]
        else:
            at, missed = at + 1, missed + 1
    return found
