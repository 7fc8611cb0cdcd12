"""A request may end a process: on both sides alike, or it is a breach. The next request is answered again."""

from pathlib import Path

import pytest

from tests.support.models import model_names
from tests.support.overlay import write_overlay
from vlmopt.engine.protocol import Process
from vlmopt.engine.worker import Worker, WorkerDiedError
from vlmopt.small import requests_of, small_of, write_small_folder
from vlmopt.specs import load_spec
from vlmopt.verify.compare import Stage
from vlmopt.verify.images import ImageCase
from vlmopt.verify.pair import Pair, _compare_ends
from vlmopt.verify.requests import RequestCase

DIED = WorkerDiedError("it ended", "")


@pytest.mark.parametrize(("stock", "fork", "breaches"), [(DIED, DIED, 0), (DIED, None, 1), (None, DIED, 1)])
def test_an_end_on_one_side_is_a_breach(stock: object, fork: object, breaches: int) -> None:
    result = _compare_ends(stock, fork, 2)
    assert [each.stage for each in result.differences] == [Stage.errors] * breaches
    assert (result.requests, result.refused, result.compared[Stage.errors]) == (2, 2, 2)


# Two images end the process, one does not.
ENDS = """

_stock_batches = group_and_batch_mm_kwargs


def group_and_batch_mm_kwargs(mm_kwargs, **options):
    for modality, items, batch in _stock_batches(mm_kwargs, **options):
        if items == 2:
            import os
            os._exit(3)
        yield modality, items, batch
"""


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_a_process_that_a_request_ends_is_started_again(tmp_path: Path) -> None:
    spec = load_spec(model_names()[0])
    folder = write_small_folder(spec, tmp_path)
    ending = write_overlay(tmp_path / "overlay", {"vllm/multimodal/utils.py": ENDS})
    image = ImageCase(30, 20)
    one, two = ((RequestCase((image,) * count, ("",) * count),) for count in (1, 2))
    trust = small_of(spec).trust_remote_code
    with Worker() as stock:
        with Pair(ending, folder, requests_of(spec), trust_remote_code=trust, stock=stock) as pair:
            pair.load()
            assert pair.processed(one).differences == []
            (difference,) = pair.processed(two).differences
            assert difference.text == "the process of stock answered, that of the fork ended"
            assert pair.processed(one).differences == []
        message = Process(())
        stock.start(message)
        assert stock.finish().prompts == ()
