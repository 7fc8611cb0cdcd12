"""The plan: which rules, in which order, with which status and why, and the text of every changed file."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from vlmopt.bind import BoundEdit, bind_edits, bind_rule_probes
from vlmopt.drift import Drift, drift_message, home_words
from vlmopt.errors import ConflictError, DriftError, RuleError, SpecError
from vlmopt.gates import Selection, unmet_condition, unmet_need
from vlmopt.modules import Modules
from vlmopt.rewrite import Conflict, EditResult, Outcome, Splice, compose
from vlmopt.rules import Rule, in_order
from vlmopt.runtimefiles import fork_files
from vlmopt.sources import plugged
from vlmopt.specs import Spec
from vlmopt.substitute import Variables
from vlmopt.treepath import VLLM, package_of

if TYPE_CHECKING:
    from vlmopt.sources import InstalledPlugin, Tree


class Status(StrEnum):
    """What became of a rule on one model and source."""

    applied = "applied"
    already_upstream = "already-upstream"
    not_applicable = "not-applicable"
    skipped = "skipped"
    drifted = "drifted"


@dataclass(frozen=True)
class PlannedEdit:
    """One edit of a rule, looked for in one file. `number` counts from 1, as messages do."""

    number: int
    file: str
    result: EditResult


@dataclass(frozen=True)
class RulePlan:
    """One rule's status. `reason` is one line, no full stop; empty where the rule is plainly applied."""

    rule: Rule
    status: Status
    reason: str = ""
    edits: tuple[PlannedEdit, ...] = ()
    files: tuple[str, ...] = ()  # tree paths that the rule changes, sorted; empty unless applied


@dataclass(frozen=True)
class FileChange:
    """One changed file. `steps`: (rule id, text after that rule) for each rule that changes it, in order."""

    before: str
    after: str
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plan:
    """Everything that a fork is made of."""

    tree: Tree
    spec: Spec
    rules: tuple[RulePlan, ...]
    files: Mapping[str, FileChange]
    runtime_files: Mapping[str, str]  # "vllm/vlmopt_runtime/NAME" -> text

    @property
    def plugin(self) -> InstalledPlugin | None:
        """The package outside of vLLM that the spec names; None for a model of vLLM's own."""
        return getattr(self.tree, "plugin", None)


def make_plan(
    tree: Tree,
    spec: Spec,
    rules: Iterable[Rule],
    *,
    recipes: Collection[str] | None = None,
    skip: Collection[str] = (),
    allow: str = "exact",
    strict: bool = True,
    modules: Modules | None = None,
    left_out: Mapping[str, str] = MappingProxyType({}),
    first: Sequence[str] = (),
) -> Plan:
    """Decides what becomes of every rule on this model and source. Writes nothing.

    Args:
        tree: the vLLM tree; only read. The plug-in that the spec names is found beside it.
        spec: the model.
        rules: all rules, in any order.
        recipes: ids to use, with what they need; None for all whose contract is allowed.
        skip: ids to leave out.
        allow: the loosest contract that may be used: `exact`, `bounded` or `approximate`.
        strict: raise on drift and conflict; otherwise the rule's status is `drifted`, with the reason.
        modules: parsed files of `tree`, to share between plans.
        left_out: ids to leave out beside those of `skip`, with the reason of each.
        first: ids in the order in which they are to be applied where their needs leave a choice.

    Raises:
        UsageError: an unknown recipe or level.
        RuleError, SpecError, SourceError: rule, spec or source is wrong; one line with its place.
        DriftError: edits do not find their places; the message tells of all of them.
        ConflictError: two rules change the same place.
    """
    ordered = in_order(rules, first)
    selection = Selection(ordered, recipes, skip, allow, left_out)
    modules = modules or Modules(tree)
    if spec.plugin is not None:
        tree = plugged(tree, spec.plugin.package, spec.plugin.installed_as, spec.where("plugin"))
        modules = modules.beside(tree)
    if strict:
        _check_model_files(tree, spec)
    planner = _Planner(tree, spec, modules, strict)
    refusals = {rule.id: selection.refusal(rule) for rule in ordered}
    planner.prefetch(rule for rule in ordered if refusals[rule.id] is None)
    for rule in ordered:
        planner.add(rule, refusals[rule.id])
    return planner.finish()


def _check_model_files(tree: Tree, spec: Spec) -> None:
    for key, path in (("module", spec.model.module), ("processor_module", spec.model.processor_module)):
        if not tree.exists(path):
            raise SpecError(
                f"{spec.where('model', key)}: {path} is not in {home_words(tree, path)}; "
                "correct the spec, or name another source"
            )


@dataclass
class _FileDraft:
    groups: list[tuple[str, Sequence[Splice]]] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)


class _Planner:
    """Takes rules in order and keeps what they have come to so far."""

    def __init__(self, tree: Tree, spec: Spec, modules: Modules, strict: bool) -> None:
        self.tree = tree
        self.spec = spec
        self.modules = modules
        self.strict = strict
        self.facts = spec.facts()
        self.variables = Variables(self.facts, f"spec {spec.name}")
        self.plans: dict[str, RulePlan] = {}
        self.drafts: dict[str, _FileDraft] = {}
        self.drifts: list[Drift] = []

    def prefetch(self, rules: Iterable[Rule]) -> None:
        """Names every file that these rules may read: a tree behind a network fetches them together."""
        wanted: set[str] = set()
        for rule in rules:
            if unmet_condition(rule, self.spec, self.facts) is None:
                edits = bind_edits(rule, self.variables)
                probes = [*bind_rule_probes(rule, self.variables), *(p for e in edits for p in e.elsewhere)]
                choices = [e.files for e in edits] + [p.files for p in probes]
                wanted.update(path for files in choices if (path := self.modules.first(files)))
        self.tree.prefetch(sorted(wanted))

    def add(self, rule: Rule, refusal: str | None) -> None:
        """Decides the rule's status, and takes its changes in when it is applied."""
        self.plans[rule.id] = self._gate(rule, refusal) or self._look(rule)

    def finish(self) -> Plan:
        """The plan. Raises DriftError when strict and an edit drifted."""
        if self.strict and self.drifts:
            raise DriftError(drift_message(self.drifts, self.tree))
        files = {
            path: FileChange(self.modules.text(path), draft.steps[-1][1], tuple(draft.steps))
            for path, draft in sorted(self.drafts.items())
        }
        if self.strict:
            for path, change in files.items():
                self._check_python(path, change)
        plans = tuple(self.plans.values())
        runtime = {name for plan in plans if plan.status is Status.applied for name in plan.rule.runtime}
        return Plan(
            self.tree, self.spec, plans, MappingProxyType(files), MappingProxyType(fork_files(runtime))
        )

    def _check_python(self, path: str, change: FileChange) -> None:
        """Raises RuleError when a rule's code turned a file into something that Python refuses."""
        if _python_error(change.after) is None:
            return
        for name, text in change.steps:
            error = _python_error(text)
            if error is not None:
                rule = self.plans[name].rule
                raise RuleError(
                    f"{rule.where('edits')}: after rule {name}, {path}:{error.lineno} is not Python: "
                    f"{error.msg}; mend the code that the rule writes"
                )

    def _gate(self, rule: Rule, refusal: str | None) -> RulePlan | None:
        if refusal is not None:
            return RulePlan(rule, Status.skipped, refusal)
        reason = unmet_condition(rule, self.spec, self.facts)
        if reason is not None:
            return RulePlan(rule, Status.not_applicable, reason)
        in_place = (Status.applied, Status.already_upstream)
        outcomes = {name: (plan.status.value, plan.status in in_place) for name, plan in self.plans.items()}
        reason = unmet_need(rule, outcomes)
        if reason is not None:
            return RulePlan(rule, Status.skipped, reason)
        return None

    def _look(self, rule: Rule) -> RulePlan:
        for probe in bind_rule_probes(rule, self.variables):
            if self.modules.holds(probe):
                return RulePlan(rule, Status.already_upstream, f"{self.modules.first(probe.files)} has it")
        bound = bind_edits(rule, self.variables)
        edits = tuple(self._find(one) for one in bound)
        drifts = [
            self._drift(rule, one, edit)
            for one, edit in zip(bound, edits, strict=True)
            if edit.result.outcome is Outcome.drift
        ]
        if drifts:
            self.drifts += drifts
            return RulePlan(rule, Status.drifted, drifts[0].short(), edits)
        if any(edit.result.splices for edit in edits):
            return self._take(rule, edits)
        upstream = [edit.file for edit in edits if edit.result.outcome is Outcome.already]
        if upstream:
            return RulePlan(rule, Status.already_upstream, f"{upstream[0]} has it", edits)
        if any(edit.result.outcome is Outcome.present for edit in edits):
            return RulePlan(rule, Status.already_upstream, "already in this tree", edits)
        return RulePlan(rule, Status.not_applicable, "nothing in this source matches", edits)

    def _find(self, bound: BoundEdit) -> PlannedEdit:
        path = self.modules.first(bound.files)
        if path is not None:
            return PlannedEdit(bound.number, path, self.modules.find(path, bound))
        upstream = any(self.modules.holds(probe) for probe in bound.elsewhere)
        outcome = Outcome.already if upstream else Outcome.drift
        return PlannedEdit(bound.number, bound.files[0], EditResult(bound.edit, outcome, 0, None, (), None))

    def _drift(self, rule: Rule, bound: BoundEdit, edit: PlannedEdit) -> Drift:
        return Drift(
            rule=rule.id,
            number=edit.number,
            where=bound.where,
            file=edit.file,
            file_exists=self.tree.exists(edit.file),
            within=bound.edit.within,
            expected=bound.edit.times,
            found=edit.result.found,
            candidate=edit.result.candidate,
            home=self._home(edit.file),
        )

    def _home(self, path: str) -> str:
        inside_vllm = package_of(path) == VLLM
        return Drift.home if inside_vllm else home_words(self.tree, path)

    def _take(self, rule: Rule, edits: tuple[PlannedEdit, ...]) -> RulePlan:
        splices: dict[str, list[Splice]] = {}
        for edit in edits:
            if edit.result.splices:
                splices.setdefault(edit.file, []).extend(edit.result.splices)
        steps: dict[str, str] = {}
        for path, added in sorted(splices.items()):
            groups = self.drafts[path].groups if path in self.drafts else []
            try:
                steps[path] = compose(self.modules.text(path), [*groups, (rule.id, added)])
            except Conflict as error:
                if self.strict:
                    raise ConflictError(
                        f"{path}: {error}; nothing was written. Leave one of the rules out: --skip {rule.id}"
                    ) from None
                return RulePlan(rule, Status.drifted, f"conflict in {path}: {error}", edits)
        for path, text in steps.items():
            draft = self.drafts.setdefault(path, _FileDraft())
            draft.groups.append((rule.id, splices[path]))
            draft.steps.append((rule.id, text))
        return RulePlan(rule, Status.applied, _partly(edits), edits, tuple(steps))


def _python_error(text: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return error
    return None


def _partly(edits: Sequence[PlannedEdit]) -> str:
    there = [str(e.number) for e in edits if e.result.outcome in (Outcome.already, Outcome.present)]
    if not there:
        return ""
    return f"edit{'' if len(there) == 1 else 's'} {', '.join(there)} of {len(edits)} already there"
