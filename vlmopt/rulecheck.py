"""The self-check of a rule: its examples. Behind `vlmopt rules check`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from vlmopt.bind import BoundEdit, bind_edits
from vlmopt.errors import RuleError
from vlmopt.rewrite import (
    Conflict,
    EditResult,
    Module,
    Outcome,
    PatternError,
    SyntaxErrorInSource,
    compose,
)
from vlmopt.rules import Example, Rule
from vlmopt.substitute import Variables, variables_in


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a rule. `where` is `file:line`; `text` may have several lines (a diff)."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


def check_rule(rule: Rule) -> list[Problem]:
    """Runs all examples of a rule; an empty list means that it is sound.

    Every edit must be shown by an example, every example must come out as written, and a second run on its
    result must change nothing.
    """
    problems = []
    shown: set[int] = set()
    for i, example in enumerate(rule.examples):
        where = rule.where("examples", i)
        try:
            edits = bind_edits(rule, _variables(rule, example), example.edit)
            if example.untouched is None:
                shown.update(edit.number for edit in edits)
            problem = _run(example, edits)
        except RuleError as error:
            problem = str(error)
        if problem is not None:
            problems.append(Problem(where, f"example {i + 1}: {problem}"))
    for number in range(1, len(rule.edits) + 1):
        if number not in shown:
            problems.append(Problem(rule.where("edits", number - 1), f"edit {number} has no example"))
    return problems


def _variables(rule: Rule, example: Example) -> Variables:
    """What `with` gives, and a name for the files: an example is a text of its own, wherever it stands."""
    probes = [*rule.already, *(probe for edit in rule.edits for probe in edit.already)]
    given = [edit.file for edit in rule.edits] + [probe.file for probe in probes if probe.file]
    templates = [template for files in given for template in files]
    files = {path: "vllm/example.py" for template in templates for path in variables_in(template)}
    return Variables({**files, **example.variables}, "the example's `with`")


def _run(example: Example, edits: list[BoundEdit]) -> str | None:
    """What is wrong with one example; None when it comes out as written."""
    if example.untouched is not None:
        text, results = _apply(example.untouched, edits)
        hits = [edit.number for edit, result in results if result.outcome is Outcome.hit and result.splices]
        if hits:
            return f"edit {hits[0]} must leave it alone, but writes\n{_diff(example.untouched, text)}"
        return None
    assert example.before is not None
    assert example.after is not None
    text, results = _apply(example.before, edits)
    for edit, result in results:
        if result.outcome is Outcome.drift:
            nearest = result.candidate
            hint = f"; nearest is line {nearest.line}: {nearest.difference}" if nearest else ""
            low, high = edit.edit.times
            wanted = str(low) if low == high else f"{low} to {high}"
            return f"edit {edit.number}: expected {wanted} matches, found {result.found}{hint}"
    if text != example.after:
        return f"comes out other than `after` says\n{_diff(example.after, text)}"
    again, _ = _apply(text, edits)
    if again != text:
        return f"a second run changes it again\n{_diff(text, again)}"
    return None


def _apply(text: str, edits: list[BoundEdit]) -> tuple[str, list[tuple[BoundEdit, EditResult]]]:
    module = Module(text, "the example")
    try:
        results = [(edit, module.find(edit.edit)) for edit in edits]
        splices = [splice for _, result in results for splice in result.splices]
        return compose(text, [("this rule", splices)]), results
    except (PatternError, SyntaxErrorInSource, Conflict) as error:
        raise RuleError(str(error)) from None


def _diff(expected: str, found: str) -> str:
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "expected", "found", lineterm="")
    return "\n".join(lines)
