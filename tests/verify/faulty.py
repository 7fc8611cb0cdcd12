"""Forks with one line changed, and what verify makes of them.

With VLMOPT_FAULTS=all the tests look at every fault of faults.yaml, without it at those of `every_run`.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import TypeAdapter

from vlmopt.compiler import compile_model
from vlmopt.engine.protocol import Load, Message, Outcome, Process
from vlmopt.engine.worker import Worker
from vlmopt.fork import Fork
from vlmopt.small import requests_of, small_of, write_small_folder
from vlmopt.specs import load_spec
from vlmopt.verify.compare import Difference, Stage
from vlmopt.verify.pair import Pair
from vlmopt.verify.parts import Level
from vlmopt.verify.promise import promise_of
from vlmopt.verify.requests import Case, cases, load_tokenizer
from vlmopt.verify.search import Found, search
from vlmopt.verify.simpler import simpler_cases
from vlmopt.verify.steps import first_breaking_step

ALL = os.environ.get("VLMOPT_FAULTS") == "all"
EXAMPLES = 300
SHRINK_S = 15.0


@dataclass(frozen=True)
class Edit:
    """One line of a file in a fork, and what it is changed to."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Smallest:
    """What the shrunk example of a fault must not exceed; `side` in pixels."""

    requests: int = 1
    images: int = 1
    side: int | None = None


@dataclass(frozen=True)
class Fault(Edit):
    """An entry of faults.yaml, where the fields are explained."""

    id: str
    what: str
    model: str
    stage: Stage
    self_check: Literal["catches", "misses"]
    level: Level = Level.processor
    rule: str | None = None
    every_run: bool = False
    smallest: Smallest = field(default_factory=Smallest)

    def __str__(self) -> str:
        return f"{self.id}: {self.what} ({self.model}, {self.file})"

    @property
    def edits(self) -> list[Edit]:
        """The fault, and where the self-check would keep it from outputs, that check's end."""
        return [*(WITHOUT_SELF_CHECK if self.self_check == "catches" else ()), self]


_DATA = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text("utf-8"))
FAULTS = TypeAdapter(list[Fault]).validate_python(_DATA["faults"])
WITHOUT_SELF_CHECK = TypeAdapter(list[Edit]).validate_python(_DATA["without_self_check"])


def faults_of(*geometries: str) -> list[Fault]:
    """The faults to look at in the processors, of models whose images have one of these geometries."""
    return [
        fault
        for fault in FAULTS
        if (ALL or fault.every_run)
        and fault.level is Level.processor
        and load_spec(fault.model).images.geometry in geometries
    ]


class Remembering(Worker):
    """Stock, which answers from memory what it was asked before: a model's faults meet the same cases."""

    def __init__(self) -> None:
        super().__init__()
        self._model: Load | None = None
        self._answers: dict[bytes, Any] = {}
        self._asked = b""
        self._known = False

    def start(self, message: Message) -> None:
        if isinstance(message, Load):
            self._model = message
        self._asked = sha256(pickle.dumps((self._model, message))).digest()
        self._known = self._asked in self._answers and not isinstance(message, Load)
        if not self._known:
            super().start(message)

    def finish(self) -> Any:
        if not self._known:
            self._answers[self._asked] = super().finish()
        return self._answers[self._asked]


class Bench:
    """Stock, and for each model a fork that faults are put into, one at a time.

    A fork stays in its place, so that its bytecode and compiled kernels serve all of its faults.
    """

    def __init__(self, scratch: Path) -> None:
        self.stock = Remembering()
        self._scratch = scratch
        self._folders: dict[str, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stock.close()

    def folder_of(self, name: str) -> Path:
        """The small model folder."""
        if name not in self._folders:
            self._folders[name] = write_small_folder(load_spec(name), self._scratch / "models")
        return self._folders[name]

    def fork_of(self, name: str) -> Path:
        """The fork as `apply` writes it."""
        fork = self._scratch / "forks" / name
        if not fork.exists():
            compile_model(name, source="installed", out=fork)
        return fork

    @contextmanager
    def faulty(self, name: str, edits: Sequence[Edit]) -> Iterator[Path]:
        """The fork with the edits in it, for as long as the context lasts."""
        fork, kept = self.fork_of(name), self._scratch / "kept"
        kept.mkdir(exist_ok=True)
        with ExitStack() as undo:
            for number, edit in enumerate(edits):
                path = fork / edit.file
                text = path.read_text("utf-8")
                assert text.count(edit.before) == 1, f"{edit.file} must have {edit.before!r} once"
                # Moved aside and back: a link stays a link, and a file stays as old as its bytecode says.
                path.rename(kept / str(number))
                undo.callback((kept / str(number)).replace, path)
                path.write_text(text.replace(edit.before, edit.after), "utf-8")
            yield fork

    @contextmanager
    def comparing(self, name: str, fork: Path) -> Iterator[Callable[[Case], list[Difference]]]:
        """Stock beside a fork of the model: a function from a case to what breaks the fork's promise."""
        spec, promise = load_spec(name), promise_of(Fork.open(self.fork_of(name)))
        trusted = small_of(spec).trust_remote_code
        folder, requests = self.folder_of(name), requests_of(spec)
        with Pair(fork, folder, requests, trust_remote_code=trusted, stock=self.stock) as pair:
            pair.load()
            yield lambda case: promise.broken_by(pair.processed(case).differences)

    def verify(
        self,
        name: str,
        edits: Sequence[Edit],
        *,
        examples: int = EXAMPLES,
        tick: Callable[[int], None] = lambda done: None,
    ) -> Found[Case] | None:
        """What verify finds in the fork with the edits: a shrunk example, or None."""
        with self.faulty(name, edits) as fork, self.comparing(name, fork) as breaches_of:
            space = cases(requests_of(load_spec(name)))
            return search(
                breaches_of,
                space,
                examples=examples,
                seed_value=0,
                simpler=simpler_cases,
                shrink_s=SHRINK_S,
                tick=tick,
            )

    def both(self, name: str, edits: Sequence[Edit], case: Case) -> tuple[Outcome, Outcome]:
        """What stock, and the fork with the edits, make of a case."""
        spec, folder = load_spec(name), self.folder_of(name)
        tokenizer = load_tokenizer(folder)
        message = Process(tuple(request.build(requests_of(spec), tokenizer) for request in case))
        answers = []
        with self.faulty(name, edits) as fork, Worker(fork) as worker:
            for side in (self.stock, worker):
                side.load(folder, trust_remote_code=small_of(spec).trust_remote_code)
                side.start(message)
                answers.append(side.finish())
        return answers[0], answers[1]

    def rule_of(self, fault: Fault, case: Case) -> str | None:
        """The rule that verify names for a case that the fault breaks."""

        def breaks(fork: Path) -> bool:
            with self.comparing(fault.model, fork) as breaches_of:
                return bool(breaches_of(case))

        with self.faulty(fault.model, fault.edits) as fork:
            return first_breaking_step(Fork.open(fork), breaks).rule


def check(fault: Fault, bench: Bench) -> None:
    """Fails unless verify finds the fault, at its stage, and shrinks the example; with ALL, at its rule."""
    found = bench.verify(fault.model, fault.edits)
    assert found is not None, f"{fault} survives {EXAMPLES} examples"
    said = "\n".join(map(str, (*found.breaches, *found.case)))
    assert found.stable, said
    assert fault.stage in {breach.stage for breach in found.breaches}, said
    most = fault.smallest
    images = [image for request in found.case for image in request.images]
    assert len(found.case) <= most.requests, said
    assert len(images) <= most.images, said
    assert most.side is None or max(max(image.width, image.height) for image in images) <= most.side, said
    if ALL and fault.rule is not None:
        assert bench.rule_of(fault, found.case) == fault.rule, said
