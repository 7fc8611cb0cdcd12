"""Every image-capable architecture of a tree against every recipe: what would become of each, and why.

Architectures that a spec answers for are planned with it; the others with a spec drafted from the code, whose
geometry is `unknown`. Nothing is written, and a recipe that drifts is a status here, not an error.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from vlmopt.errors import SourceError, SpecError, UsageError
from vlmopt.infer import Surveyor
from vlmopt.infer.registry import Registered
from vlmopt.modules import Modules
from vlmopt.plan import Status, make_plan
from vlmopt.rules import Rule, in_order
from vlmopt.sources import Tree
from vlmopt.specs import Spec

Progress = Callable[[str, int, int], None]

_BATCH = 8  # rows that go to a worker at a time


@dataclass(frozen=True)
class Finding:
    """What would become of one recipe. `reason` is one line, empty where it is plainly applied."""

    status: Status
    reason: str


@dataclass(frozen=True)
class ScanRow:
    """One architecture. `spec` is the name of the spec that answered for it, None when it was drafted."""

    architecture: str
    spec: str | None
    findings: dict[str, Finding]  # recipe id -> finding; empty when `problem` says why
    problem: str | None = None


@dataclass(frozen=True)
class Scan:
    """The whole table. Rows come in the registry's order, recipes in the order in which they apply."""

    vllm: str
    location: str
    recipes: tuple[str, ...]
    rows: tuple[ScanRow, ...]

    @property
    def drifted(self) -> bool:
        """Whether any recipe drifted on any architecture."""
        return self.counts()[Status.drifted] > 0

    def counts(self, recipe: str | None = None) -> Counter[Status]:
        """How often each status came out, of one recipe or of all."""
        return Counter(
            finding.status
            for row in self.rows
            for name, finding in row.findings.items()
            if recipe in (None, name)
        )


def scan(
    tree: Tree,
    specs: Sequence[Spec],
    rules: Sequence[Rule],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Scans a tree with every recipe allowed, whatever its contract.

    Args:
        tree: the vLLM tree; only read.
        specs: the specs that answer for architectures; the rest is drafted.
        rules: the recipes.
        workers: processes to share the work; None for one a core, 1 for none but this.
        progress: called with (architecture, done, total).

    Raises:
        SourceError: the tree's registry cannot be read.
        RuleError: a rule is malformed or asks for a fact that no spec has.
    """
    surveyor = Surveyor(tree)
    ordered = tuple(in_order(rules))
    candidates = surveyor.candidates()
    job = _Job(tree, surveyor, Modules(tree), tuple(specs), ordered)
    batches = _batches(candidates, {spec.architecture for spec in specs})
    rows: dict[int, list[ScanRow]] = {}
    done = 0
    for number, found in _run(job, batches, workers or os.cpu_count() or 1):
        rows[number] = found
        done += len(batches[number])
        if progress and found:
            progress(found[-1].architecture, done, len(candidates))
    order = {name: place for place, name in enumerate(surveyor.registry)}
    everything = sorted(
        (row for found in rows.values() for row in found), key=lambda r: order[r.architecture]
    )
    return Scan(tree.version, tree.location, tuple(rule.id for rule in ordered), tuple(everything))


@dataclass(frozen=True)
class _Job:
    tree: Tree
    surveyor: Surveyor
    modules: Modules
    specs: tuple[Spec, ...]
    rules: tuple[Rule, ...]

    def rows(self, batch: Sequence[Registered]) -> list[ScanRow]:
        """The rows of one batch; architectures that take no images give none."""
        return [row for registered in batch for row in self._rows_of(registered)]

    def _rows_of(self, registered: Registered) -> Iterator[ScanRow]:
        name = registered.architecture
        own = [spec for spec in self.specs if spec.architecture == name]
        try:
            drafted = [draft.spec() for draft in self.surveyor.drafts([registered])] if not own else []
        except (SourceError, SpecError) as error:
            yield ScanRow(name, None, {}, str(error))
            return
        for spec in own or drafted:
            yield self._row(name, spec, spec.name if own else None)

    def _row(self, architecture: str, spec: Spec, known: str | None) -> ScanRow:
        try:
            plan = make_plan(
                self.tree, spec, self.rules, allow="approximate", strict=False, modules=self.modules
            )
        except SourceError as error:
            return ScanRow(architecture, known, {}, str(error))
        findings = {each.rule.id: Finding(each.status, each.reason) for each in plan.rules}
        return ScanRow(architecture, known, findings)


def _batches(rows: Iterable[Registered], known: Collection[str]) -> list[list[Registered]]:
    """Rows of one module stay together, so that its file is parsed once; a batch is about `_BATCH` rows.

    The first batch is one module alone, of a known architecture where there is one: more recipes apply to it,
    and what it parses of the files that all share need not be parsed again.
    """
    modules: dict[str, list[Registered]] = {}
    for row in rows:
        modules.setdefault(row.module, []).append(row)
    groups = sorted(modules.values(), key=lambda group: all(row.architecture not in known for row in group))
    batches: list[list[Registered]] = [groups[0], []] if groups else []
    for group in groups[1:]:
        if len(batches[-1]) >= _BATCH:
            batches.append([])
        batches[-1] += group
    return batches


_job: _Job | None = None  # what forked workers inherit; parsed trees and rules need not be pickled


def _work(number: int, batch: Sequence[Registered]) -> tuple[int, list[ScanRow]]:
    assert _job is not None
    return number, _job.rows(batch)


def _run(
    job: _Job, batches: Sequence[Sequence[Registered]], workers: int
) -> Iterator[tuple[int, list[ScanRow]]]:
    global _job
    alone = workers == 1 or "fork" not in multiprocessing.get_all_start_methods()
    here = len(batches) if alone else 1
    for number, batch in enumerate(batches[:here]):
        yield number, job.rows(batch)
    if here == len(batches):
        return
    _job = job
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _die_quietly)
    try:
        futures = [pool.submit(_work, n, batch) for n, batch in enumerate(batches[here:], here)]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise UsageError("a scanning process was killed, perhaps for lack of memory; try again") from None
    finally:
        pool.shutdown(cancel_futures=True)
        _job = None


def _die_quietly() -> None:
    """Ctrl-C reaches every process of a terminal; only the first has something to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
