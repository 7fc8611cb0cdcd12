"""Whatever the recipes do not understand stays as stock has it, alone and beside what they do.

Videos, embeddings, arrays, own names of items, requests and engines with processor arguments, wrong counts,
and model folders whose image processor is not the one that the spec was written for. What is tried on which
model is in ``stays_stock.yaml``.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from tests.support.models import Model, engine_params, load_model
from vlmopt.engine.protocol import Load, Outcome, Process, Request
from vlmopt.engine.worker import Worker
from vlmopt.verify.compare import differences
from vlmopt.verify.images import ImageCase
from vlmopt.verify.requests import load_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

TRIED: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("stays_stock.yaml").read_text("utf-8")
)
PACKED = 0.6
"""A packed image is at most this share of what stock sends: bytes for bfloat16, a picture for two frames."""
FRAMES = 4


class Pair:
    """Stock and the fork of one model."""

    def __init__(self, stock: Worker, fork: Worker, model: Model, folder: Path) -> None:
        self.workers = (stock, fork)
        self.model = model
        self.folder = folder
        self.tried = TRIED[model.name]

    def load(self, folder: Path | None = None, **config: Any) -> None:
        """Loads the model's folder, or another one, with these arguments of ``ModelConfig``."""
        self._both(Load(str(folder or self.folder), self.model.trust_remote_code, config))

    def same(self, *requests: Request) -> tuple[Outcome, Outcome]:
        """Both outcomes of the requests in one batch; the test fails where they differ."""
        stock, fork = self._both(Process(requests, data=True))
        lines = differences(stock, fork)
        if lines:
            pytest.fail(
                "\n".join([f"{self.model.name}:", *(str(line)[:600] for line in lines)]), pytrace=False
            )
        return stock, fork

    def packed(self, *requests: Request) -> list[bool]:
        """Of each request whether it went as bytes. Stock serves all of them, and the fork alike."""
        stock, fork = self.same(*requests)
        assert [prompt.error for prompt in stock.prompts] == [None] * len(requests)
        return [
            theirs.sent <= PACKED * ours.sent
            for ours, theirs in zip(stock.prompts, fork.prompts, strict=True)
        ]

    def images(self, *images: Any, **more: Any) -> Request:
        return Request(self.model.prompt_for(len(images)), images, **more)

    def video(self, *, image: Any = None, seed: int = 0) -> Request:
        """A request with one video, before an image where there is one."""
        tried = self.tried["video"]
        frames = np.random.default_rng(seed).integers(0, 256, (FRAMES, 56, 84, 3), np.uint8)
        video = (frames, tried["metadata"]) if "metadata" in tried else frames
        images = () if image is None else (image,)
        placeholders = tried["placeholder"] + self.model.image * len(images)
        return Request(self.model.prompt.format(images=placeholders), images, more={"video": [video]})

    def _both(self, message: Load | Process) -> Any:
        for worker in self.workers:
            worker.start(message)
        return tuple(worker.finish() for worker in self.workers)


@pytest.fixture(scope="module", params=engine_params("stays"))
def fork_pair(
    request: pytest.FixtureRequest,
    stock_worker: Worker,
    fork_of: Callable[[str], Path],
    model_folders: dict[str, Path],
) -> Iterator[Pair]:
    name = request.param
    with Worker(fork_of(name)) as fork_worker:
        yield Pair(stock_worker, fork_worker, load_model(name), model_folders[name])


@pytest.fixture
def pair(fork_pair: Pair) -> Pair:
    """The pair, with the model as it is usually loaded."""
    fork_pair.load()
    return fork_pair


def picture(width: int = 320, height: int = 200, seed: int = 0) -> Image.Image:
    made: Image.Image = ImageCase(width, height, seed=seed).build()
    return made


def array(seed: int = 0) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(picture(seed=seed))


def embeddings(described: Any) -> Any:
    """Embeddings from their description in the YAML file."""
    if isinstance(described, Mapping):
        if "random" in described:
            generator = torch.Generator().manual_seed(0)
            return torch.randn(described["random"], generator=generator).bfloat16()
        return {key: embeddings(value) for key, value in described.items()}
    if isinstance(described[0], Mapping):
        return [embeddings(item) for item in described]
    return torch.tensor(described)


def variant(folder: Path, into: Path, file: str, values: Mapping[str, Any]) -> Path:
    """A copy of a model folder with other values in one of its files."""
    shutil.copytree(folder, into, copy_function=os.link)
    changed = json.loads((into / file).read_text("utf-8")) | values
    (into / file).unlink()
    (into / file).write_text(json.dumps(changed), "utf-8")
    return into


def test_requests_of_other_kinds_beside_packed_ones(pair: Pair) -> None:
    own = pair.images(picture(seed=1), mm_processor_kwargs=pair.model.processor_kwargs[0])
    plain = pair.images(picture(), picture(90, 400))
    ids = load_tokenizer(pair.folder).encode(pair.model.prompt_for(1)).ids
    requests = [plain, own, replace(pair.images(picture(seed=2)), prompt=ids), pair.images()]
    packed = [True, False, True, False]
    if "video" in pair.tried:
        requests += [pair.video(), pair.video(image=picture(seed=3), seed=1), plain]
        packed += [False, False, True]
    assert pair.packed(*requests) == packed


def test_arrays_are_served_or_refused_as_in_stock(pair: Pair) -> None:
    planes = torch.from_numpy(array(1).transpose(2, 0, 1).copy())
    stock, fork = pair.same(
        pair.images(picture()), pair.images(array()), pair.images(planes), pair.images(picture(), array())
    )
    sent = [[prompt.sent for prompt in outcome.prompts] for outcome in (stock, fork)]
    assert sent[0][0] > sent[1][0]
    assert sent[0][1:] == sent[1][1:]


def test_names_that_the_user_gives_and_what_the_cache_remembers(pair: Pair) -> None:
    first, second = picture(seed=4), picture(160, 300, seed=5)
    named = pair.images(first, second, uuids={"image": ["first", None]}, cached=True)
    stock, fork = pair.same(
        named,
        replace(named, images=(None, second)),
        pair.images(None, uuids={"image": ["unknown"]}, cached=True),
        pair.images(None, uuids={"image": ["first"]}),
        pair.images(second, picture(77, 300, seed=6), second, cached=True),
        pair.images(second, array(), cached=True),
        replace(named, cached=False, uuids={"image": ["second", "first"]}),
    )
    for outcome in (stock, fork):
        assert outcome.prompts[0].hashes["image"][0] == "first"
        assert outcome.prompts[1].error is None
        assert outcome.prompts[2].error is not None
    assert fork.prompts[4].sent < PACKED * stock.prompts[4].sent


def test_wrong_counts_and_broken_files_fail_as_in_stock(pair: Pair) -> None:
    two, one = pair.model.prompt_for(2), pair.model.prompt_for(1)
    good = ImageCase(200, 100, form="PNG").build()
    stock, _ = pair.same(
        Request(two, (picture(),)),
        Request(one, (picture(), picture(seed=1))),
        Request(one, ()),
        Request(pair.model.prompt_for(0), (picture(),)),
        *(pair.images(file) for file in (good[:-300], good[:60], b"")),
    )
    failed = [prompt.error is not None for prompt in stock.prompts]
    assert failed == [False, True, False, True, True, True, True]


def test_embeddings_beside_packed_images(pair: Pair) -> None:
    described = pair.tried.get("embeddings")
    pair.load(enable_mm_embeds=True)
    given = Request(
        pair.model.prompt_for(1), (), more={"image": embeddings(described or [{"random": [64, 64]}])}
    )
    if described is None:
        stock, _ = pair.same(given)
        assert stock.prompts[0].error is not None
    else:
        plain = pair.images(picture())
        assert pair.packed(plain, given, plain) == [True, False, True]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_types_of_the_model(pair: Pair, dtype: str) -> None:
    pair.load(dtype=dtype)
    assert pair.packed(pair.images(picture(), picture(90, 130))) == [True]


def test_processor_arguments_of_the_engine(pair: Pair) -> None:
    wrong = []
    for case in pair.tried["engine"]:
        pair.load(mm_processor_kwargs=case["arguments"])
        wrong += misjudged(pair, case)
    assert wrong == []


def test_image_processors_with_other_settings(pair: Pair, tmp_path: Path) -> None:
    wrong = []
    for number, case in enumerate(pair.tried["files"]):
        changed = variant(pair.folder, tmp_path / str(number), case["file"], case["values"])
        pair.load(changed, tokenizer=str(pair.folder))
        wrong += misjudged(pair, case)
    assert wrong == []


def misjudged(pair: Pair, case: Mapping[str, Any]) -> Sequence[str]:
    """The case where images of usual and of large size do not go as it says."""
    packed = pair.packed(pair.images(picture()), pair.images(picture(1500, 1200)))
    return [] if packed == [case["packs"]] * 2 else [f"{pair.model.name}: {case} packs {packed}"]
