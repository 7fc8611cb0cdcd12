"""One training run of the study, and how well the model answers on the way."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import argus_arms
import torch
from argus_arms import Arm
from argus_record import Budget, Point, Run
from argus_scores import HeldOut

from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor
from vlmopt.argus.training.folder import last_state, record_of
from vlmopt.argus.training.run import Options, train
from vlmopt.errors import UsageError
from vlmopt.whole import write_whole

_REPORTS = 20
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Task:
    """A run that is to be done, in the folder `work`."""

    arm: Arm
    seed: int
    budget: Budget
    work: Path

    @property
    def key(self) -> str:
        return self.arm.key(self.seed)

    def options(self) -> Options:
        """What the trainer is asked for."""
        return Options(
            member=str(self.arm.write(self.work / "members")),
            number=2,
            out=self.work / self.key,
            steps=self.budget.steps,
            batch=self.budget.batch,
            seed=self.seed,
            save_every=max(self.budget.steps // self.budget.points, 1),
            form=self.arm.form,
            vision=argus_arms.ENCODER,
            threads=self.budget.threads,
        )

    def command(self) -> str:
        """What trains the same model without this program; MEMBERS is its folder of members."""
        options = self.options()
        words = ["vlmopt", "argus", "train", "--stage", options.number]
        words += ["--model", f"MEMBERS/{Path(options.member).name}"]
        words += ["--boxes", options.form] if options.form else []
        words += ["--vision", options.vision.relative_to(_ROOT)] if options.vision else []
        words += ["--steps", options.steps, "--batch", options.batch, "--seed", options.seed]
        words += ["--save-every", options.save_every, "--threads", options.threads, "--out", self.key]
        return shlex.join(map(str, words))


class Points:
    """Evaluates at the chosen steps. What is found stays in a file, so that a resumed run has all of it."""

    def __init__(self, file: Path, steps: list[int], held_out: HeldOut) -> None:
        self._file = file
        self._steps = frozenset(steps)
        self._held_out = held_out
        self._found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}

    def __call__(
        self, step: int, model: ArgusVLMForConditionalGeneration, processor: ArgusVLMProcessor
    ) -> None:
        """Called after each step of the trainer."""
        if step not in self._steps:
            return
        began = time.monotonic()
        model.eval()
        with torch.random.fork_rng(devices=[]):
            scores = self._held_out.scores(model, processor)
        model.train()
        point = Point(step=step, seconds=round(time.monotonic() - began, 2), **scores)
        self._found[str(step)] = point.model_dump()
        write_whole(self._file, json.dumps(self._found))

    def all(self) -> tuple[Point, ...]:
        """By step."""
        return tuple(Point.model_validate(self._found[step]) for step in sorted(self._found, key=int))


def carry_out(task: Task) -> Run:
    """Trains and evaluates, or goes on with what was broken off.

    Raises:
        UsageError: the folder of work holds the same run with other options.
    """
    held_out = HeldOut(task.budget.questions)
    folder = task.work / task.key
    points = Points(task.work / f"{task.key}.json", task.budget.evaluated(), held_out)
    record = _train(task, points)
    parameters, box_tokens = held_out.facts(folder)
    return Run(
        kind=task.arm.kind,
        arm=task.arm.name,
        seed=task.seed,
        parameters=parameters,
        box_tokens=round(box_tokens, 2),
        points=points.all(),
        losses=tuple(map(tuple, record["losses"])),
        seconds=record["seconds"],
        command=task.command(),
    )


def _train(task: Task, points: Points) -> Mapping[str, Any]:
    """The record of the training."""
    options = task.options()
    done = record_of(options.out)
    if done is None:
        resume = last_state(options.out) is not None
        if not resume and options.out.exists():
            # It was broken off before its first state was saved.
            shutil.rmtree(options.out)
        train(Options(**{**vars(options), "resume": resume}), _progress(task.key), points)
        done = record_of(options.out)
        assert done is not None
        if resume:
            (options.out / "resumed").touch()
    elif done["options"] != json.loads(json.dumps(options.asked())):
        raise UsageError(f"{options.out} holds a run with other options: choose another folder with --work")
    # What a resumed run notes is its own part of the time.
    return {**done, "seconds": None if (options.out / "resumed").exists() else done["seconds"]}


def _progress(key: str) -> Any:
    def tick(what: str, done: int, total: int) -> None:
        if done % max(total // _REPORTS, 1) == 0 or done == total:
            print(f"{key}: {done}/{total} {what}", file=sys.stderr, flush=True)

    return tick
