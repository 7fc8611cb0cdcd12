"""What enters the vision tower, the token ids and the placeholder ranges are bit by bit those of stock.

Every model sees generated images through stock vLLM and through its fork, side by side. VLMOPT_EXAMPLES sets
how many images a model sees at least (200 where it is not set), VLMOPT_SEED where the drawing starts.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.support.models import Model, load_model, model_names
from vlmopt.engine.protocol import Outcome, Process
from vlmopt.engine.worker import Worker
from vlmopt.verify.compare import differences
from vlmopt.verify.requests import RequestCase, load_tokenizer, random_request

IMAGES = int(os.environ.get("VLMOPT_EXAMPLES", "200"))
SEED = int(os.environ.get("VLMOPT_SEED", "0"))
ONE_HUGE_IN = 20
REPORTED_FAILURES = 3
LINE = 600

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
        """Where the two outcomes of `cases` differ."""
        return differences(*self.outcomes(cases, data=data))

    def outcomes(self, cases: Sequence[RequestCase], *, data: bool = False) -> tuple[Outcome, Outcome]:
        """What stock and the fork make of the requests, at the same time, their items in one batch."""
        message = Process(tuple(case.build(self.model, self.tokenizer) for case in cases), data)
        for worker in self.workers:
            worker.start(message)
        stock, fork = (worker.finish() for worker in self.workers)
        return stock, fork

    def report(self, cases: Sequence[RequestCase]) -> str:
        """The smallest failing request that is easy to find below `cases`, and how it fails."""
        failing = tuple(cases)
        while smaller := next((s for s in _smaller(failing) if self.differences(s)), None):
            failing = smaller
        lines = self.differences(failing, data=True) or [
            "nothing, when asked again: the outcome is not stable"
        ]
        return "\n".join([*(f"  {case}" for case in failing), *(f"    {line[:LINE]}" for line in lines)])


def _smaller(cases: Sequence[RequestCase]) -> list[tuple[RequestCase, ...]]:
    if len(cases) > 1:
        return [(case,) for case in cases]
    return [(case,) for case in cases[0].smaller()]


def groups(rng: random.Random, model: Model) -> Iterator[tuple[RequestCase, ...]]:
    """Requests without end; those of one group are batched together."""
    for number in itertools.count(1):
        huge = number % ONE_HUGE_IN == 0
        count = 1 if huge else rng.choice([1, 1, 2, 3])
        yield tuple(random_request(rng, model, huge=huge) for _ in range(count))


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
        failures, served, refused = list[str](), 0, 0
        for cases in groups(random.Random(f"{name} {SEED}"), model):
            stock, fork = pair.outcomes(cases)
            for case, prompt in zip(cases, stock.prompts, strict=True):
                served += 0 if prompt.error else len(case.images)
                refused += len(case.images) if prompt.error else 0
            if differences(stock, fork):
                failures.append(pair.report(cases))
            if served >= IMAGES or refused > IMAGES or len(failures) == REPORTED_FAILURES:
                break
    if failures:
        lines = [f"{name}, seed {SEED}: {len(failures)} failures in {served + refused} images", *failures]
        pytest.fail("\n".join(lines), pytrace=False)
    assert served >= IMAGES, f"stock refused {refused} images: the requests are drawn badly"
