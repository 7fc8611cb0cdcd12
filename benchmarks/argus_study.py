"""The controlled study of ArgusVLM: three box formats on the same data, and language models of three sizes.

    python benchmarks/argus_study.py docs/figures/argus_study.json [--seeds 3] [--jobs 2]

Trains argusvlm-tiny in each format with each seed, and two more sizes; evaluates on held-out scenes on the
way; measures how long the sizes take to answer; draws. The file is written whole after each run: the same
command goes on where it was broken off, in the middle of a run too, and does nothing twice.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import argus_latency
from argus_arms import FORMATS, SIZES
from argus_draw import draw
from argus_record import Budget, Run, Study, load_study
from argus_runs import Task, carry_out

from vlmopt.argus import needs
from vlmopt.errors import UsageError, VlmoptError
from vlmopt.measure.machine import machine_here


def main() -> None:
    """Trains, measures, draws."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        needs.argus()
        study(options())
    except VlmoptError as error:
        sys.exit(f"argus_study: {error}")


def study(asked: argparse.Namespace) -> Study:
    """Does what the file does not hold yet.

    Raises:
        UsageError: the file holds a study with another budget, or cannot be read or written.
    """
    budget = Budget(
        steps=asked.steps,
        batch=asked.batch,
        threads=asked.threads,
        points=asked.points,
        questions=asked.questions,
    )
    held = _begin(asked, budget)
    # Seed by seed, so that a study that is broken off compares as many formats as it can; the large model,
    # which takes longest, not at the end, where it would run alone.
    arms = [(arm, seed) for seed in range(asked.seeds) for arm in FORMATS if arm.name in asked.formats]
    sizes = [(arm, 0) for arm in reversed(SIZES) if arm.name in asked.sizes]
    first = len(asked.formats)
    tasks = [Task(arm, seed, budget, asked.work) for arm, seed in (*arms[:first], *sizes, *arms[first:])]
    todo = [task for task in tasks if task.key not in held.runs]
    for task in tasks:
        if task not in todo:
            _say(f"{task.key}: already there")
    for key, run in _runs(todo, asked.jobs):
        held = held.model_copy(update={"runs": {**held.runs, key: run}})
        held.save(asked.results)
        _say(f"{key}: accuracy {run.points[-1].accuracy:.3f}")
    if not held.latency:
        latency = argus_latency.measure(SIZES, asked.repeats)
        held = held.model_copy(update={"latency": latency})
    held.save(asked.results)
    draw(asked.results)
    return held


def _begin(asked: argparse.Namespace, budget: Budget) -> Study:
    """The study so far."""
    if not asked.results.exists():
        return Study(
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            command=_command(asked),
            machine=machine_here(asked.threads),
            budget=budget,
            jobs=asked.jobs,
        )
    held = load_study(asked.results)
    for name, value in budget:
        before = getattr(held.budget, name)
        if before != value:
            raise UsageError(
                f"{asked.results} holds a study with {name} {before}, not {value}: "
                "go on with the same, or choose another file"
            )
    return held


def _runs(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, Run]]:
    """The runs as they finish, so many side by side.

    Each is a process of its own. When one fails, or this one is ended, all end; what they saved stays.
    """
    # Spawned, since torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(min(jobs, max(len(tasks), 1)), mp_context=context)
    try:
        futures = {executor.submit(carry_out, task): task.key for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    executor.shutdown()


def _command(asked: argparse.Namespace) -> str:
    """This program's command, without the places of files."""
    words = ["python", "benchmarks/argus_study.py", "docs/figures/argus_study.json"]
    for name in ("seeds", "steps", "batch", "points", "questions", "jobs", "threads"):
        words += [f"--{name}", str(getattr(asked, name))]
    return " ".join(words)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: it must be at least 1")
    return value


def options() -> argparse.Namespace:
    """What the command line asks for."""
    names = [arm.name for arm in FORMATS]
    parser = argparse.ArgumentParser(description="Compare box formats and sizes of ArgusVLM, and draw.")
    parser.add_argument("results", type=Path, help="the JSON file; what it holds is not done again")
    parser.add_argument("--seeds", type=_positive, default=3, help="of each format: 0, 1, ... (%(default)s)")
    parser.add_argument("--formats", nargs="*", default=names, choices=names)
    parser.add_argument("--sizes", nargs="*", default=["small", "large"], choices=["small", "large"])
    for name, default, text in (
        ("steps", 1200, "of each run"),
        ("batch", 8, "pictures in a step"),
        ("points", 6, "evaluations on the way"),
        ("questions", 200, "held-out groundings in an evaluation"),
        ("jobs", 2, "runs side by side"),
        ("threads", 1, "of each run"),
        ("repeats", 40, "measurements of latency"),
    ):
        parser.add_argument(f"--{name}", type=_positive, default=default, help=f"{text} (%(default)s)")
    parser.add_argument(
        "--work", type=Path, default=Path("build/argus-study"), help="the folder of the runs (%(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
