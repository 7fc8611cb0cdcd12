"""`report.md` of a fork: what was done, to what, why, and what was left alone and why.

The same plan gives the same bytes: no time, no path of the fork.
"""

from __future__ import annotations

from collections.abc import Sequence

from vlmopt.fork.lock import own_version
from vlmopt.plan import Plan, RulePlan, Status
from vlmopt.report.changes import ChangedFile, changed_files
from vlmopt.report.wording import build_name, contract_words

_CELL = str.maketrans({"|": "\\|", "\n": " "})


def report(plan: Plan) -> str:
    """The whole report of a plan, as Markdown."""
    applied = [each for each in plan.rules if each.status is Status.applied]
    left = [each for each in plan.rules if each.status is not Status.applied]
    files = changed_files(plan)
    parts = [
        f"# {plan.spec.title} on vLLM {build_name(plan.tree)}",
        f"Written by vlmopt {own_version()} from {plan.tree.location} ({plan.tree.kind}), "
        f"for the spec `{plan.spec.name}` (`{plan.spec.architecture}`).",
        _summary(applied, left),
        "## What was done",
        *[text for number, each in enumerate(applied, 1) for text in _applied(number, each)],
        *([] if applied else ["Nothing: this fork is stock vLLM."]),
        "## What was left alone, and why",
        _table(("recipe", "status", "why"), [(f"`{e.rule.id}`", e.status.value, e.reason) for e in left])
        if left
        else "Nothing: every recipe was applied.",
        "## Changed files",
        _files(files) if files else "None.",
        *_runtime(plan),
        "## How to use it",
        "`vlmopt run FORK -- vllm serve MODEL`, with this folder as FORK. `vlmopt diff FORK` shows the "
        "changes; `patches/` holds them for `git am` on a checkout of this release.",
    ]
    return "\n\n".join(parts) + "\n"


def _summary(applied: Sequence[RulePlan], left: Sequence[RulePlan]) -> str:
    total = len(applied) + len(left)
    contracts = list(dict.fromkeys(each.rule.contract for each in applied))
    lines = [f"{len(applied)} of {total} recipes were applied."]
    lines += [f"- {contract_words(contract)}" for contract in contracts]
    return "\n".join([lines[0], *([""] if contracts else []), *lines[1:]])


def _applied(number: int, each: RulePlan) -> list[str]:
    rule = each.rule
    facts = [f"- Contract: {rule.contract.value}{f' ({rule.bound:g})' if rule.bound else ''}"]
    facts += [f"- Needs: {', '.join(f'`{need}`' for need in rule.needs)}"] if rule.needs else []
    facts += [f"- Files: {', '.join(f'`{path}`' for path in each.files)}"]
    facts += [f"- Brings: {', '.join(f'`{name}`' for name in rule.runtime)}"] if rule.runtime else []
    facts += [f"- Note: {each.reason}"] if each.reason else []
    return [f"### {number}. `{rule.id}`: {rule.title}", rule.why.strip(), "\n".join(facts)]


def _files(files: Sequence[ChangedFile]) -> str:
    rows = [
        (
            f"`{each.path}`",
            f"+{each.added}",
            f"-{each.removed}",
            ", ".join(f"`{rule}`" for rule in each.rules),
        )
        for each in files
    ]
    return _table(("file", "added", "removed", "by"), rows)


def _runtime(plan: Plan) -> list[str]:
    if not plan.runtime_files:
        return []
    return ["New files:", "\n".join(f"- `{path}`" for path in sorted(plan.runtime_files))]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *[[cell.translate(_CELL) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
