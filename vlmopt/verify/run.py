"""Verifies a fork: searches each part of a level for a breach, names its rule, and keeps the case."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlmopt.errors import UsageError
from vlmopt.sources import Progress
from vlmopt.verify.casefile import CaseFile, decode, encode, read_case, write_case
from vlmopt.verify.compare import Difference
from vlmopt.verify.parts import EXAMPLES, PARTS, Level, Model, Part, Sides
from vlmopt.verify.result import Failure, Tally, Verification, save
from vlmopt.verify.search import Found, search
from vlmopt.verify.steps import changed_since_apply, first_breaking_step
from vlmopt.verify.subject import Subject, model_of, open_subject

FAILURES = "failures"


def verify_fork(
    folder: Path,
    *,
    level: str = Level.processor,
    examples: int | None = None,
    seed: int = 0,
    model: str | None = None,
    model_folder: Path | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Looks for a request whose outputs differ between a fork and its stock by more than the fork promises.

    Args:
        folder: a fork that `apply` wrote.
        level: `processor`, `tower` or `engine`.
        examples: how many cases are compared; None for the level's own number.
        seed: the same seed draws the same cases.
        model: the spec, as a name, a path or a hub id; None for the one that the fork's lock names.
        model_folder: a real model folder, with weights; None for the spec's small one.
        progress: called as cases are compared.

    Raises:
        VlmoptError: the comparison cannot be made; the message says why.
    """
    wanted = _level(level)
    count = EXAMPLES[wanted] if examples is None else examples
    if count < 1:
        raise UsageError(f"--examples {count}: at least one example is needed")
    run = _Run(open_subject(folder, model), wanted, seed, progress or _silent)
    parts = PARTS[wanted]
    failure = None
    with model_of(run.subject.spec, model_folder, weights=wanted is not Level.processor) as loaded:
        for number, part in enumerate(parts):
            share = count // len(parts) + (number < count % len(parts))
            run.progress("Starting stock and the fork", 0, 0)
            with part.open(run.subject.fork.path, loaded) as sides:
                found = run.search(part, sides, loaded, share)
                if found is not None:
                    failure = run.failure(found, part, sides)
                    break
    result = run.result(failure)
    save(result)
    return result


def replay_case(
    folder: Path,
    case_folder: Path,
    *,
    model: str | None = None,
    model_folder: Path | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compares one case again that an earlier verification wrote.

    Raises:
        VlmoptError: there is no such case, or the comparison cannot be made.
    """
    file = read_case(case_folder)
    level = _level(file.level)
    part = next((part for part in PARTS[level] if part.name == file.part), None)
    if part is None:
        raise UsageError(f"{case_folder}: there is no part {file.part!r} of level {level}")
    case = decode(part.kind, file.case, case_folder)
    run = _Run(open_subject(folder, model), level, file.seed, progress or _silent)
    spec = run.subject.spec
    if file.model != spec.name:
        raise UsageError(f"{case_folder} is a case of {file.model}, and {folder} is a fork for {spec.name}")
    failure = None
    run.progress("Starting stock and the fork", 0, 0)
    with (
        model_of(spec, model_folder, weights=level is not Level.processor) as loaded,
        part.open(run.subject.fork.path, loaded) as sides,
    ):
        breaches = run.breaches(part, sides, case)
        if breaches:
            lines = tuple(map(str, breaches))
            failure = Failure(lines, part.words(case), file.culprit, True, case_folder)
    return run.result(failure)


@dataclass
class _Run:
    """One verification on its way."""

    subject: Subject
    level: Level
    seed: int
    progress: Progress
    tally: Tally = field(default_factory=Tally)
    start: float = field(default_factory=time.monotonic)

    def breaches(self, part: Part, sides: Sides, case: Any) -> list[Difference]:
        """Compares a case, and counts it when nothing breaks the promise."""
        comparison = sides.compare(case)
        breaches = self.subject.promise.broken_by(comparison.differences)
        if not breaches:
            self.tally.add(comparison, len(part.images(case)))
        return breaches

    def search(self, part: Part, sides: Sides, model: Model, examples: int) -> Found[Any] | None:
        """The first breach in this part of the level, shrunk."""
        return search(
            lambda case: self.breaches(part, sides, case),
            part.cases(model.requests),
            examples=examples,
            seed_value=self.seed,
            tick=lambda done: self.progress(f"Comparing ({part.name})", done, examples),
            shrinking=lambda: self.progress("A breach; looking for the smallest case", 0, 0),
            simpler=part.simpler,
        )

    def failure(self, found: Found[Any], part: Part, sides: Sides) -> Failure:
        """Finds the rule that a breach comes from, and writes the case."""
        culprit = None
        if found.stable:
            self.progress("Looking for the rule that it comes from", 0, 0)
            culprit = self._culprit(found, sides)
        lines = tuple(map(str, found.breaches))
        folder = self.subject.fork.path / FAILURES / f"{self.level}-{part.name}-{self.seed}"
        file = CaseFile(
            model=self.subject.spec.name,
            vllm=self.subject.vllm,
            level=self.level,
            part=part.name,
            seed=self.seed,
            case=encode(found.case),
            breaches=list(lines),
            culprit=culprit,
        )
        write_case(folder, file, part.images(found.case))
        return Failure(lines, part.words(found.case), culprit, found.stable, folder)

    def _culprit(self, found: Found[Any], sides: Sides) -> str:
        def breaks(folder: Path) -> bool:
            with sides.beside(folder) as compare:
                return bool(self.subject.promise.broken_by(compare(found.case).differences))

        return first_breaking_step(self.subject.fork, breaks).text

    def result(self, failure: Failure | None) -> Verification:
        """The verification as far as it has come."""
        return Verification(
            fork=self.subject.fork.path,
            model=self.subject.spec.name,
            vllm=self.subject.vllm,
            level=self.level,
            seed=self.seed,
            promise=self.subject.promise,
            tally=self.tally,
            seconds=time.monotonic() - self.start,
            changed=tuple(changed_since_apply(self.subject.fork)),
            failure=failure,
        )


def _level(name: str) -> Level:
    try:
        return Level(name)
    except ValueError:
        raise UsageError(f"there is no level {name!r}; choose {', '.join(Level)}") from None


def _silent(what: str, done: int, total: int) -> None:
    pass
