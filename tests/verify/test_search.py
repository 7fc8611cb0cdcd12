"""The search finds breaches, shrinks them, keeps to its numbers and its seed."""

import time

from hypothesis import strategies as st

from vlmopt.verify.compare import Difference, Stage
from vlmopt.verify.search import search

BROKEN = [Difference(Stage.inputs, "too large")]


def above(limit):
    return lambda case: BROKEN if case > limit else []


def test_nothing_is_found_where_nothing_is_broken_and_every_example_is_compared():
    seen = []
    assert search(lambda case: seen.append(case) or [], st.integers(0), examples=70, seed_value=1) is None
    assert len(seen) == 70


def test_a_breach_is_shrunk_to_the_smallest_case():
    found = search(above(1000), st.integers(0, 10**9), examples=100, seed_value=0)
    assert found is not None
    assert (found.case, found.breaches, found.stable) == (1001, tuple(BROKEN), True)


def test_the_same_seed_draws_the_same_cases_and_another_seed_others():
    drawn = {}
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        drawn[name] = []
        search(lambda case, n=name: drawn[n].append(case) or [], st.integers(), examples=40, seed_value=seed)
    assert drawn["a"] == drawn["b"] != drawn["c"]


def test_a_breach_that_does_not_come_again_is_said_to_be_unstable():
    asked = []

    def once(case):
        asked.append(case)
        return BROKEN if len(asked) == 3 else []

    found = search(once, st.integers(), examples=10, seed_value=0)
    assert found is not None
    assert not found.stable
    assert found.breaches == tuple(BROKEN)


def test_shrinking_ends_when_its_time_is_over():
    def slow(case):
        time.sleep(0.02)
        return BROKEN if sum(case) > 50 else []

    start = time.monotonic()
    found = search(
        slow,
        st.lists(st.integers(0, 1000), min_size=20, max_size=40),
        examples=20,
        seed_value=0,
        shrink_s=0.3,
    )
    assert found is not None
    assert sum(found.case) > 50
    assert time.monotonic() - start < 30


def test_progress_counts_examples_and_not_the_shrinking():
    ticks, told = [], []
    search(
        above(10),
        st.integers(0, 10**6),
        examples=50,
        seed_value=3,
        tick=ticks.append,
        shrinking=lambda: told.append(len(ticks)),
    )
    assert ticks == list(range(1, len(ticks) + 1))
    assert len(told) == 1


def test_where_hypothesis_gets_stuck_simpler_cases_go_on():
    """Two numbers of which the second breaks: no shrinking of what was drawn makes it the first."""
    apart = st.tuples(st.integers(0, 3), st.integers(100, 10**6))
    found = search(
        lambda case: BROKEN if case[-1] > 1000 else [],
        apart,
        examples=20,
        seed_value=0,
        simpler=lambda case: [
            *[case[1:]][: len(case) - 1],
            (*case[:-1], case[-1] // 2),
            (*case[:-1], case[-1] - 1),
        ],
    )
    assert found is not None
    assert (found.case, found.stable) == ((1001,), True)


def test_a_simpler_case_must_break_at_the_same_stage():
    other = [Difference(Stage.errors, "refused")]
    found = search(
        lambda case: BROKEN if case > 1000 else other if case < 0 else [],
        st.integers(0, 10**4),
        examples=20,
        seed_value=0,
        simpler=lambda case: [-1, case - 1],
    )
    assert found is not None
    assert (found.case, found.breaches) == (1001, tuple(BROKEN))


def test_simpler_cases_end_when_their_time_is_over():
    start = time.monotonic()
    found = search(
        lambda case: BROKEN if case > 10**6 else [],
        st.just(10**9),
        examples=1,
        seed_value=0,
        simpler=lambda case: [time.sleep(0.001) or case - 1],
        shrink_s=0.2,
    )
    assert found is not None
    assert time.monotonic() - start < 10
