"""Runs an evaluation: the same questions to each engine, scored and held against each other."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from vlmopt.argus import checkpoint as checkpoints
from vlmopt.argus.boxes import CLOSE
from vlmopt.argus.errors import InputError
from vlmopt.argus.evaluation.data import open_data
from vlmopt.argus.evaluation.forks import compile_fork, open_fork
from vlmopt.argus.evaluation.in_transformers import Transformers
from vlmopt.argus.evaluation.in_vllm import VLLM
from vlmopt.argus.evaluation.questions import Answer, Engine, questions_of
from vlmopt.argus.evaluation.result import Evaluated, differences
from vlmopt.argus.evaluation.scoring import score
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor

TRANSFORMERS, STOCK, FORK = "transformers", "stock", "fork"
ENGINES = (TRANSFORMERS, STOCK, FORK)
COUNT = 100

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """What is asked for.

    Attributes:
        checkpoint: a folder; None for the one that comes with vlmopt.
        data, images: see `data.open_data`.
        engines: `transformers`, `stock`, `fork` (compiled for this evaluation), or a fork's folder.
        count: pictures; None for 100 scenes, or all pictures of a benchmark.
        tokens: the most tokens of an answer.
    """

    checkpoint: Path | None = None
    data: Sequence[str] = ("scenes",)
    images: Path | None = None
    engines: Sequence[str] = ENGINES
    count: int | None = None
    seed: int = 0
    tokens: int = 256


def evaluate(options: Options, progress: Progress = lambda what, done, total: None) -> Evaluated:
    """Asks each engine all questions about the first `count` pictures, greedily and in float32.

    Raises:
        UsageError: an engine, the data or the checkpoint is not there or cannot be read.
        VlmoptError: an engine ends, or a fork cannot be compiled.
    """
    _check_engines(options.engines)
    for name, number in (("count", options.count), ("tokens", options.tokens)):
        if number is not None and number < 1:
            raise InputError(f"{name} {number}: it must be above 0")
    scenes = list(options.data) == ["scenes"]
    count = COUNT if options.count is None and scenes else options.count
    samples, data = open_data(options.data, options.images, seed=options.seed, count=count)
    questions = questions_of(samples, count)
    folder = options.checkpoint or checkpoints.shipped()
    model, processor = checkpoints.load(folder)
    answers: dict[str, list[Answer]] = {}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="vlmopt-eval-") as scratch:
        progress("forks", 0, 0)
        # All at the start, so that what is wrong with one is said before anything is asked.
        forks = {name: _fork(name, folder, Path(scratch)) for name in options.engines}
        for name, fork in forks.items():

            def tick(done: int, name: str = name) -> None:
                progress(name, done, len(questions))

            tick(0)
            began = time.monotonic()
            with _open_engine(name, fork, folder, model, processor, options.tokens) as engine:
                answers[name] = engine.answer(questions, tick)
            seconds[name] = time.monotonic() - began
    close = processor.tokenizer.convert_tokens_to_ids(CLOSE)
    return Evaluated(
        checkpoint=folder,
        data=data,
        pictures=len({question.picture for question in questions}),
        questions=len(questions),
        scores={
            name: score(questions, given, processor.find_boxes, close) for name, given in answers.items()
        },
        seconds=seconds,
        differences=differences(questions, answers),
    )


def _check_engines(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise InputError("name each engine once: transformers, stock, fork, or a fork's folder")
    for name in names:
        if name not in ENGINES and not Path(name).is_dir():
            raise InputError(f"no engine {name!r}: choose transformers, stock, fork, or a fork's folder")
    _need_vllm(names)


def _need_vllm(names: Sequence[str]) -> None:
    if set(names) != {TRANSFORMERS} and importlib.util.find_spec("vllm") is None:
        raise InputError(
            "stock vLLM and forks need vllm: install the engine group (uv sync --group engine), "
            "or choose --engine transformers"
        )


def _fork(name: str, checkpoint: Path, scratch: Path) -> Path | None:
    """The folder of the fork that an engine's name stands for."""
    if name in (TRANSFORMERS, STOCK):
        return None
    return compile_fork(checkpoint, scratch / FORK) if name == FORK else open_fork(Path(name))


def _open_engine(
    name: str,
    fork: Path | None,
    checkpoint: Path,
    model: ArgusVLMForConditionalGeneration,
    processor: ArgusVLMProcessor,
    tokens: int,
) -> AbstractContextManager[Engine]:
    if name == TRANSFORMERS:
        return nullcontext(Transformers(model, processor, tokens))
    context = model.config.text_config.max_position_embeddings
    return VLLM(checkpoint, processor, context=context, tokens=tokens, fork=fork)
