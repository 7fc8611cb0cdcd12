"""What enters the vision tower, the token ids and the placeholder ranges are bit by bit those of stock.

Every model sees generated images through stock vLLM and through its fork, side by side. VLMOPT_EXAMPLES sets
how many images a model sees at least (200 where it is not set), VLMOPT_SEED where the drawing starts.
"""

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.support.compare import differences
from tests.support.models import Model, load_model, model_names
from tests.support.prompts import RequestCase, load_tokenizer, random_request
from tests.support.protocol import Process
from tests.support.worker import Worker

IMAGES = int(os.environ.get("VLMOPT_EXAMPLES", "200"))
SEED = int(os.environ.get("VLMOPT_SEED", "0"))
ONE_HUGE_IN = 20
REPORTED_FAILURES = 3

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


class Pair:
    """Stock and a fork with the same model loaded."""

    def __init__(self, stock: Worker, fork: Worker, model: Model, folder: Path) -> None:
        self.workers = (stock, fork)
        self.model = model
        self.tokenizer: Tokenizer = load_tokenizer(folder)
        for worker in self.workers:
            worker.load(folder, trust_remote_code=model.trust_remote_code)

    def differences(self, cases: Sequence[RequestCase], *, data: bool = False) -> list[str]:
        """Sends the requests to both at the same time, and compares what they make of them."""
        message = Process(tuple(case.build(self.model, self.tokenizer) for case in cases), data)
        for worker in self.workers:
            worker.start(message)
        stock, fork = (worker.finish() for worker in self.workers)
        return differences(stock, fork)

    def report(self, cases: Sequence[RequestCase]) -> str:
        """The smallest failing request that is easy to find below `cases`, and how it fails."""
        failing = tuple(cases)
        while smaller := next((s for s in _smaller(failing) if self.differences(s)), None):
            failing = smaller
        lines = self.differences(failing, data=True) or [
            "nothing, when asked again: the outcome is not stable"
        ]
        return "\n".join([*(f"  {case}" for case in failing), *(f"    {line}" for line in lines)])


def _smaller(cases: Sequence[RequestCase]) -> list[tuple[RequestCase, ...]]:
    if len(cases) > 1:
        return [(case,) for case in cases]
    return [(case,) for case in cases[0].smaller()]


def groups(rng: random.Random, model: Model) -> list[tuple[RequestCase, ...]]:
    """Requests with at least IMAGES images in all; those of one group are batched together."""
    made, images = list[tuple[RequestCase, ...]](), 0
    while images < IMAGES:
        huge = len(made) % ONE_HUGE_IN == ONE_HUGE_IN - 1
        count = 1 if huge else rng.choice([1, 1, 2, 3])
        made.append(tuple(random_request(rng, model, huge=huge) for _ in range(count)))
        images += sum(len(case.images) for case in made[-1])
    return made


@pytest.mark.parametrize("name", model_names())
def test_a_fork_gives_the_model_what_stock_gives(
    name: str,
    stock_worker: Worker,
    fork_of: Callable[[str], Path],
    model_folders: dict[str, Path],
) -> None:
    model = load_model(name)
    with Worker(fork_of(name)) as fork_worker:
        pair = Pair(stock_worker, fork_worker, model, model_folders[name])
        failures, compared = list[str](), 0
        for cases in groups(random.Random(f"{name} {SEED}"), model):
            compared += sum(len(case.images) for case in cases)
            if pair.differences(cases):
                failures.append(pair.report(cases))
                if len(failures) == REPORTED_FAILURES:
                    break
    assert not failures, f"{name}, seed {SEED}, {compared} images compared:\n" + "\n".join(failures)
    assert compared >= IMAGES
