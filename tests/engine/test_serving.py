"""A fork answers about photographs as stock does: through the OpenAI server, streaming and not, and offline.

Stock's and the fork's processes run one after the other, to save memory. The fork's server is started as the
README says: ``vlmopt run DIR -- vllm serve``.
"""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cli.command import arguments
from tests.support.models import engine_params
from tests.support.photos import PHOTOS, photograph
from vlmopt.engine.client import ChatAnswer, ask, greedy
from vlmopt.engine.protocol import Answer, Request
from vlmopt.engine.server import COMMAND, Server
from vlmopt.engine.worker import ENGINE, Worker
from vlmopt.small import build_small_model, requests_of, small_of
from vlmopt.specs import Spec, load_spec
from vlmopt.verify.chat import data_url

TOKENS = 8
CONCURRENT = 8

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

Content = list[dict[str, Any]]


def questions() -> list[Content]:
    """Eight user messages: JPEG and PNG photographs of several sizes, one or two to a message."""
    roof, flower = photograph("china.jpg"), photograph("flower.jpg")
    files = [
        ("JPEG", (PHOTOS / "china.jpg").read_bytes()),
        ("JPEG", (PHOTOS / "flower.jpg").read_bytes()),
        ("PNG", _file(roof.crop((100, 50, 500, 400)), "PNG")),
        ("PNG", _file(flower.resize((301, 455)), "PNG")),
        ("JPEG", _file(roof.resize((1000, 90)), "JPEG")),
        ("PNG", _file(roof.convert("L"), "PNG")),
    ]
    contents = [[_image(data, kind), _text("What is this?")] for kind, data in files]
    small = [_image(_file(photo.resize((80, 60)), "JPEG"), "JPEG") for photo in (roof, flower)]
    contents.append([*small, _text("What changed?")])
    contents.append([small[1], _text("What is this?"), small[0]])
    return contents


def _file(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def _image(data: bytes, kind: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(data, kind)}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@dataclass(frozen=True)
class Served:
    """What one engine said to `questions`: one after the other, streamed, all at once; and offline."""

    single: Sequence[ChatAnswer]
    streamed: Sequence[ChatAnswer]
    together: Sequence[ChatAnswer]
    offline: Sequence[Answer]


def serve(
    fork: Path | None, folder: Path, trust: bool
) -> tuple[list[ChatAnswer], list[ChatAnswer], list[ChatAnswer]]:
    """The server's answers to `questions`: single, streamed, and `CONCURRENT` at a time."""
    command = COMMAND if fork is None else arguments("run", fork, "--", "vllm", "serve")
    with Server(None, folder, trust_remote_code=trust, dtype="bfloat16", command=command) as server:
        messages = [[{"role": "user", "content": content}] for content in questions()]
        single = [ask(server, greedy(each, TOKENS)) for each in messages]
        streamed = [ask(server, greedy(each, TOKENS, stream=True)) for each in messages]
        with ThreadPoolExecutor(CONCURRENT) as pool:
            together = list(pool.map(lambda each: ask(server, greedy(each, TOKENS)), messages))
    return single, streamed, together


def answer_offline(fork: Path | None, folder: Path, spec: Spec) -> Sequence[Answer]:
    """The offline ``LLM``'s answers, one after the other."""
    roof, flower = photograph("china.jpg"), photograph("flower.jpg")
    with Worker(fork, child=ENGINE) as worker:
        worker.load(folder, trust_remote_code=small_of(spec).trust_remote_code)
        return [
            worker.generate(
                Request(requests_of(spec).prompt_for(len(images)), images), tokens=TOKENS
            ).answers[0]
            for images in ((roof,), (flower,), (flower.resize((300, 500)), roof.resize((90, 70))))
        ]


@pytest.fixture(scope="module", params=engine_params("served"))
def served(
    request: pytest.FixtureRequest,
    fork_of: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Served, Served]:
    """All answers of stock, and all answers of the fork."""
    spec = load_spec(request.param)
    folder = build_small_model(spec, tmp_path_factory.mktemp("served"))
    both = []
    for fork in (None, fork_of(spec.name)):
        offline = answer_offline(fork, folder, spec)
        both.append(Served(*serve(fork, folder, small_of(spec).trust_remote_code), offline))
    return both[0], both[1]


def test_stock_tells_the_photographs_apart(served: tuple[Served, Served]) -> None:
    stock, _ = served
    assert {answer.status for answer in stock.single} == {200}
    assert len({answer.text for answer in stock.single}) > len(stock.single) // 2
    assert len({answer.answer for answer in stock.single}) == len(stock.single)
    assert [answer.error for answer in stock.offline] == [None] * len(stock.offline)
    assert len(set(stock.offline)) == len(stock.offline)


def test_a_fork_answers_with_the_same_text_and_log_probabilities(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert fork.single == stock.single


def test_a_fork_streams_the_same_answers(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert fork.streamed == stock.streamed == stock.single


def test_a_fork_answers_eight_at_a_time_with_the_same_text(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert [answer.text for answer in fork.together] == [answer.text for answer in stock.together]


def test_a_fork_gives_the_same_tokens_and_log_probabilities_offline(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert fork.offline == stock.offline
