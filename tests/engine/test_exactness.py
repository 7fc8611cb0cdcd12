"""All models, at every level: the outputs of a fork are bit by bit those of stock.

VLMOPT_EXAMPLES sets how many cases a model sees at the processor level (40 where it is not set), VLMOPT_SEED
where the drawing starts. The long runs are more seeds, and the deeper levels for every model.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.models import engine_params, model_names
from vlmopt.verify.result import RESULT_NAME, Verification
from vlmopt.verify.run import verify_fork

EXAMPLES = int(os.environ.get("VLMOPT_EXAMPLES", "40"))
SEED = int(os.environ.get("VLMOPT_SEED", "0"))

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def must_hold(result: Verification) -> None:
    if not result.holds:
        pytest.fail(json.dumps(result.to_object(), indent=1), pytrace=False)
    assert result.changed == ()
    # A model that takes one image a prompt refuses every request with more.
    assert result.tally.refused < result.tally.requests / 2, "stock refuses too much: badly drawn requests"


@pytest.mark.parametrize("name", engine_params("processed"))
def test_a_fork_gives_the_model_what_stock_gives(name: str, fork_of: Callable[[str], Path]) -> None:
    result = verify_fork(fork_of(name), examples=EXAMPLES, seed=SEED)
    must_hold(result)
    assert result.tally.images >= EXAMPLES
    kept = json.loads((fork_of(name) / RESULT_NAME).read_text("utf-8"))
    assert kept["processor"]["holds"] is True


@pytest.mark.parametrize("level", ["tower", "engine"])
@pytest.mark.parametrize("name", engine_params("verified"))
def test_a_fork_answers_as_stock_does(name: str, level: str, fork_of: Callable[[str], Path]) -> None:
    must_hold(verify_fork(fork_of(name), level=level, examples=16, seed=SEED))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_there_is_no_false_alarm(seed: int, fork_of: Callable[[str], Path]) -> None:
    name = model_names()[seed % len(model_names())]
    must_hold(verify_fork(fork_of(name), examples=100, seed=seed))
