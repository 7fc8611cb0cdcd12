"""The engine tests can fail: they see one flipped bit, a changed token, a missing tensor, another error."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.models import Model, load_model, model_names
from tests.support.overlay import write_overlay
from vlmopt.engine.protocol import Outcome, Request
from vlmopt.engine.worker import Worker, WorkerDiedError
from vlmopt.small import requests_of
from vlmopt.specs import load_spec
from vlmopt.verify.compare import Stage, differences
from vlmopt.verify.images import ImageCase
from vlmopt.verify.requests import RequestCase, load_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

# Two images in a batch: the largest tensor has a flipped bit. Three in a prompt: another last token.
FLIP_A_BIT = """

_stock_batches = group_and_batch_mm_kwargs


def group_and_batch_mm_kwargs(mm_kwargs, **options):
    for modality, items, batch in _stock_batches(mm_kwargs, **options):
        if items == 2:
            largest = max((v for v in batch.values() if isinstance(v, torch.Tensor)), key=torch.numel)
            largest.view(-1).view(torch.uint8)[-1] ^= 1
        yield modality, items, batch
"""
CHANGE_A_TOKEN = """

_stock_apply = BaseMultiModalProcessor.apply


def _apply(self, inputs, timing_ctx):
    result = _stock_apply(self, inputs, timing_ctx)
    if sum(map(len, result["mm_placeholders"].values())) == 3:
        result["prompt_token_ids"][-1] ^= 1
    return result


BaseMultiModalProcessor.apply = _apply
"""


@pytest.fixture(scope="module")
def tampered_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A stand-in for a fork that is equal to stock with one image, and wrong with two and with three."""
    additions = {
        "vllm/multimodal/utils.py": FLIP_A_BIT,
        "vllm/multimodal/processing/processor.py": CHANGE_A_TOKEN,
    }
    with Worker(write_overlay(tmp_path_factory.mktemp("overlay"), additions)) as worker:
        yield worker


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(model_names()[0])


@pytest.fixture(scope="module")
def outcomes(
    stock_worker: Worker, tampered_worker: Worker, model: Model, model_folders: dict[str, Path]
) -> dict[int, tuple[Outcome, Outcome]]:
    """What stock and the stand-in make of one prompt, by the number of its images."""
    folder = model_folders[model.name]
    tokenizer = load_tokenizer(folder)
    workers = (stock_worker, tampered_worker)
    for worker in workers:
        worker.load(folder, trust_remote_code=model.trust_remote_code)
    answers = {}
    for count in (1, 2, 3):
        images = tuple(ImageCase(30 + i, 20, seed=i) for i in range(count))
        request = RequestCase(images, ("",) * count).build(requests_of(load_spec(model.name)), tokenizer)
        answers[count] = tuple(worker.process(request, data=True) for worker in workers)
    return answers


def test_equal_engines_have_no_differences(outcomes: dict[int, tuple[Outcome, Outcome]]) -> None:
    stock, fork = outcomes[1]
    assert differences(stock, fork) == []
    assert stock.prompts[0].error is None
    assert len(stock.batches) == 1


def test_one_flipped_bit_is_seen_and_placed(outcomes: dict[int, tuple[Outcome, Outcome]]) -> None:
    (line,) = differences(*outcomes[2])
    assert line.stage == Stage.inputs
    assert line.text.startswith("batch 1: pixel_values")
    assert ": 1 of " in line.text
    assert line.distance is not None
    assert line.distance > 0


def test_one_changed_token_is_seen_and_placed(outcomes: dict[int, tuple[Outcome, Outcome]]) -> None:
    stock, fork = outcomes[3]
    (line,) = differences(stock, fork)
    assert line.stage == Stage.token_ids
    assert f"they differ from {len(stock.prompts[0].token_ids) - 1} on" in line.text


def test_a_missing_tensor_and_another_shape_are_seen(outcomes: dict[int, tuple[Outcome, Outcome]]) -> None:
    stock, _ = outcomes[1]
    (batch,) = stock.batches
    name, tensor = next(iter(batch.tensors.items()))
    without = {key: value for key, value in batch.tensors.items() if key != name}
    (line,) = differences(stock, replace(stock, batches=(replace(batch, tensors=without),)))
    assert f"only stock has ['{name}']" in line.text
    reshaped = {**batch.tensors, name: replace(tensor, shape=(*tensor.shape, 1))}
    (line,) = differences(stock, replace(stock, batches=(replace(batch, tensors=reshaped),)))
    assert name in line.text
    assert differences(stock, replace(stock, batches=()))[0].text.startswith("batches: ")


def test_an_error_of_stock_is_an_outcome_and_must_be_the_same(stock_worker: Worker, model: Model) -> None:
    wrong = Request(model.prompt_for(2), (b"no image",))
    outcome = stock_worker.process(wrong)
    error = outcome.prompts[0].error
    assert error is not None
    assert error.kind == "ValueError"
    assert differences(outcome, outcome) == []
    moved = replace(outcome.prompts[0], error=replace(error, message=f"{error.message} at 0x7f00"))
    assert len(differences(outcome, replace(outcome, prompts=(moved,)))) == 1


def test_a_worker_that_dies_says_why(tmp_path: Path) -> None:
    (tmp_path / "vllm.py").write_text("raise ImportError('this is no vLLM')", "utf-8")
    with Worker(tmp_path) as worker, pytest.raises(WorkerDiedError, match="this is no vLLM"):
        worker.hello()


def test_a_worker_with_another_vllm_than_asked_for_is_refused(tmp_path: Path) -> None:
    with Worker(tmp_path) as worker, pytest.raises(WorkerDiedError, match="not from"):
        worker.process()
