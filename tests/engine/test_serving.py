"""A fork answers as stock does: through the OpenAI server, streaming and not, eight at a time, and offline.

The engines run with seeded weights of a useful size (`tests/support/plugin`): with vLLM's dummy weights every
prompt has the same answer. Stock's and the fork's processes run one after the other, to save memory.
"""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.models import ASSETS, load_model, model_names
from tests.support.photos import photograph
from vlmopt.engine.server import Answer, Server, free_port, image_part
from vlmopt.engine.worker import ROOT, engine_environment

TOKENS = 8
CONCURRENT = 8
OFFLINE_S = 400
PLUGIN = ROOT / "tests" / "support" / "plugin"
SERVED = [name for name in model_names() if load_model(name).serve]
SETTINGS = [
    *("--load-format", "random", "--dtype", "bfloat16", "--enforce-eager", "--seed", "0"),
    *("--max-model-len", "8192", "--max-num-batched-tokens", "8192", "--no-enable-prefix-caching"),
    *("--host", "127.0.0.1", "--served-model-name", "model"),
]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

Content = list[dict[str, Any]]


def questions() -> list[Content]:
    """Eight user messages: JPEG and PNG photographs of several sizes, one or two to a message."""
    roof, flower = photograph("china.jpg"), photograph("flower.jpg")
    files = [
        ("jpeg", (ASSETS / "photos" / "china.jpg").read_bytes()),
        ("jpeg", (ASSETS / "photos" / "flower.jpg").read_bytes()),
        ("png", _file(roof.crop((100, 50, 500, 400)), "PNG")),
        ("png", _file(flower.resize((301, 455)), "PNG")),
        ("jpeg", _file(roof.resize((1000, 90)), "JPEG")),
        ("png", _file(roof.convert("L"), "PNG")),
    ]
    contents = [[image_part(data, kind), _text("What is this?")] for kind, data in files]
    small = [image_part(_file(photo.resize((80, 60)), "JPEG"), "jpeg") for photo in (roof, flower)]
    contents.append([*small, _text("What changed?")])
    contents.append([small[1], _text("What is this?"), small[0]])
    return contents


def _file(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@dataclass(frozen=True)
class Served:
    """What one engine said to `questions`: one after the other, streamed, all at once; and offline."""

    single: Sequence[Answer]
    streamed: Sequence[Answer]
    together: Sequence[Answer]
    offline: Sequence[dict[str, Any]]


class Engine:
    """How stock or a fork is started: the environment, and what stands before a command."""

    def __init__(self, fork: Path | None, scratch: Path) -> None:
        self.scratch = scratch
        self.environment = engine_environment(None, scratch) | {"PYTHONPATH": str(PLUGIN)}
        vlmopt = [sys.executable, "-c", "from vlmopt.cli import main; main()"]
        self.prefix = [*vlmopt, "run", str(fork), "--"] if fork else []
        # Stock's own `vllm` command stops on CPU builds, which have no metadata of a distribution named vllm.
        server = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model"]
        self.server = ["vllm", "serve"] if fork else server

    def serve(self, name: str, folder: Path) -> tuple[list[Answer], list[Answer], list[Answer]]:
        """The server's answers to `questions`: single, streamed, and `CONCURRENT` at a time."""
        port = free_port()
        trust = ["--trust-remote-code"] if load_model(name).trust_remote_code else []
        command = [*self.prefix, *self.server, str(folder), *SETTINGS, *trust, "--port", str(port)]
        with Server(command, self.environment, port) as server:
            asked = questions()
            single = [server.chat(content, max_tokens=TOKENS) for content in asked]
            streamed = [server.chat(content, max_tokens=TOKENS, stream=True) for content in asked]
            with ThreadPoolExecutor(CONCURRENT) as pool:
                together = list(pool.map(lambda content: server.chat(content, max_tokens=TOKENS), asked))
        return single, streamed, together

    def offline(self, name: str, folder: Path) -> list[dict[str, Any]]:
        """Token ids and log-probabilities from the offline ``LLM``."""
        out = self.scratch / "offline.json"
        python = [sys.executable, "-m", "tests.support.offline", name, str(folder), str(out)]
        done = subprocess.run(
            [*self.prefix, *python],
            cwd=ROOT,
            env=self.environment | {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=OFFLINE_S,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.fail(f"offline engine, exit code {done.returncode}:\n{done.stdout[-3000:]}", pytrace=False)
        answers: list[dict[str, Any]] = json.loads(out.read_text("utf-8"))
        return answers


@pytest.fixture(scope="module", params=SERVED)
def served(
    request: pytest.FixtureRequest,
    fork_of: Callable[[str], Path],
    model_folders: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Served, Served]:
    """All answers of stock, and all answers of the fork."""
    name = request.param
    both = []
    for fork in (None, fork_of(name)):
        engine = Engine(fork, tmp_path_factory.mktemp("engine"))
        offline = engine.offline(name, model_folders[name])
        both.append(Served(*engine.serve(name, model_folders[name]), offline))
    return both[0], both[1]


def test_stock_tells_the_photographs_apart(served: tuple[Served, Served]) -> None:
    stock, _ = served
    assert len({answer.text for answer in stock.single}) > len(stock.single) // 2
    assert len({json.dumps(answer.logprobs) for answer in stock.single}) == len(stock.single)
    assert len({json.dumps(answer) for answer in stock.offline}) == len(stock.offline)


def test_a_fork_answers_with_the_same_text_and_log_probabilities(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert fork.single == stock.single


def test_a_fork_streams_the_same_text(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert fork.streamed == stock.streamed
    assert [answer.text for answer in fork.streamed] == [answer.text for answer in fork.single]


def test_a_fork_answers_eight_at_a_time_with_the_same_text(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert [answer.text for answer in fork.together] == [answer.text for answer in stock.together]


def test_a_fork_gives_the_same_tokens_and_log_probabilities_offline(served: tuple[Served, Served]) -> None:
    stock, fork = served
    assert fork.offline == stock.offline
