"""The plan: which rules, in which order, with which status and why, and the text of every changed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vlmopt.rewrite import EditResult
    from vlmopt.rules import Rule
    from vlmopt.sources import Tree
    from vlmopt.specs import Spec


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
    """One rule's status. `reason` is one line without a full stop; empty where the rule is plainly applied."""

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
