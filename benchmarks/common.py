"""What the benchmarks share: their arguments, their images, and the alternation of stock and fork."""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.models import build_model_folder, load_model, model_names  # noqa: E402
from tests.support.photos import photo_jpeg  # noqa: E402
from vlmopt.engine.protocol import Request  # noqa: E402
from vlmopt.engine.worker import ENGINE, Worker  # noqa: E402

SIZES = ["224x224", "640x480", "1024x768", "2048x1536", "4096x3072", "4096x4096"]
# Dummy weights, and no cache: every request does all of the work.
ENGINE_CONFIG = {"load_format": "dummy", "mm_processor_cache_gb": 0, "limit_mm_per_prompt": {"image": 1}}
WARM_UP, ROUNDS = 3, 15
T = TypeVar("T")


def arguments(description: str) -> argparse.Namespace:
    """The command line: a model, a fork, sizes, and the form of the output."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "model", help=f"a model folder, or one of the tests' models: {', '.join(model_names())}"
    )
    parser.add_argument("--fork", type=Path, help="the fork; without it stock is measured against itself")
    parser.add_argument(
        "--size", nargs="+", default=SIZES, metavar="WxH", help="image sizes (JPEG photographs)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measured calls of each engine a size")
    parser.add_argument(
        "--prompt", help="the prompt for one image, for a folder that is not one of the tests'"
    )
    parser.add_argument("--trust-remote-code", action="store_true", help="for such a folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.model not in model_names() and not options.prompt:
        parser.error(f"{options.model} is none of the tests' models: give its --prompt")
    return options


@contextlib.contextmanager
def pair(options: argparse.Namespace, child: str) -> Iterator[tuple[tuple[Worker, Worker], str]]:
    """Stock's and the fork's worker with the model loaded, and the prompt for one image."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Worker(child=child) as stock,
        Worker(options.fork, child=child) as fork,
    ):
        folder, trust, prompt = Path(options.model).resolve(), options.trust_remote_code, options.prompt
        if options.model in model_names():
            model = load_model(options.model)
            folder = build_model_folder(model.name, Path(scratch))
            trust, prompt = model.trust_remote_code, options.prompt or model.prompt_for(1)
        for worker in (stock, fork):
            worker.load(folder, trust_remote_code=trust, **(ENGINE_CONFIG if child == ENGINE else {}))
        yield (stock, fork), prompt


def photograph_of(size: str, prompt: str) -> Request:
    """A request with one JPEG photograph of `size`, such as ``640x480``."""
    width, height = (int(side) for side in size.split("x"))
    return Request(prompt, (photo_jpeg(width, height),))


def alternate(workers: Sequence[Worker], call: Callable[[Worker], T], rounds: int) -> list[list[T]]:
    """Calls each worker in turn, `rounds` times after a warm-up; one list a worker."""
    for _ in range(WARM_UP):
        for worker in workers:
            call(worker)
    measured: list[list[T]] = [[] for _ in workers]
    for _ in range(rounds):
        for worker, results in zip(workers, measured, strict=True):
            results.append(call(worker))
    return measured


def report(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Prints the rows as a table, or as JSON."""
    if options.json:
        print(json.dumps({"model": options.model, "fork": str(options.fork), "rows": rows}, indent=1))
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    for line in [names, *cells]:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
