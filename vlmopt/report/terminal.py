"""Tables and coloured diffs for a terminal; the same as plain columns for a pipe."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vlmopt.plan import Plan, Status
from vlmopt.report.changes import changed_files
from vlmopt.report.wording import build_name
from vlmopt.rules import Rule, RuleShape
from vlmopt.specs import Spec

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vlmopt.fork import Fork
    from vlmopt.infer import Draft
    from vlmopt.scan import Scan

_STYLES = {
    Status.applied: "green",
    Status.already_upstream: "cyan",
    Status.not_applicable: "dim",
    Status.skipped: "yellow",
    Status.drifted: "bold red",
}
_SIGNS = {
    Status.applied: "+",
    Status.already_upstream: "=",
    Status.not_applicable: ".",
    Status.skipped: "s",
    Status.drifted: "!",
}


def columns(head: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A plain table: a bold head, two blanks between columns, no frame."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def status_text(status: Status) -> Text:
    """The status in its colour."""
    return Text(status.value, style=_STYLES[status])


def plan_tables(plan: Plan) -> RenderableType:
    """What became of each recipe, and which files changed."""
    title = Text(f"{plan.spec.title} on vLLM {build_name(plan.tree)}, {plan.tree.location}", style="bold")
    if plan.plugin is not None:
        title.append(f"\nA model of {plan.plugin.words}")
    statuses = columns(
        ("recipe", "status", "contract", "why"),
        [(e.rule.id, status_text(e.status), e.rule.contract.value, e.reason) for e in plan.rules],
    )
    files = columns(
        ("file", "added", "removed", "by"),
        [(f.path, f"+{f.added}", f"-{f.removed}", ", ".join(f.rules)) for f in changed_files(plan)],
    )
    return Group(title, "", statuses, "", files) if plan.files else Group(title, "", statuses)


def next_steps(plan: Plan, fork: Fork) -> RenderableType:
    """Where the fork is, and the commands that come next."""
    folder = _shown(fork.path)
    rows = [("fork", folder), ("serve", f"vlmopt run {folder} -- vllm serve {_served(plan)}")]
    review = ("review", f"vlmopt diff {folder}")
    lines = [Text.assemble((f"{name:<8}", "bold"), value) for name, value in [*rows, review]]
    return Group("", *lines)


def _served(plan: Plan) -> str:
    """What `vllm serve` takes: a name of the hub, or the checkpoint that ships with the plug-in."""
    if plan.spec.hub:
        return plan.spec.hub[0]
    small = plan.spec.small
    if plan.plugin is not None and small is not None and small.checkpoint is not None:
        return _shown(plan.plugin.root / small.checkpoint)
    return "MODEL"


def unpacked_plugin(fork: Fork, wheel: Path | None) -> str:
    """What is not in the wheels of a fork whose plug-in is used from its sources; "" where nothing is."""
    plugin = fork.lock.plugin
    if plugin is None or wheel is not None:
        return ""
    return (
        f"this wheel holds vLLM alone: {plugin.words} is used from its sources. Without its patches the "
        "model runs as with stock; to take them in those sources: "
        f"git apply --include='{plugin.package}/*' {_shown(fork.path)}/patches/*.patch"
    )


def _shown(path: Path) -> str:
    """The path as a command line takes it from here."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def diff_text(text: str) -> Text:
    """A unified diff, coloured as git does."""
    lines = text.removesuffix("\n").split("\n")
    return Text("\n").join(Text(line, style=_diff_style(line)) for line in lines)


def _diff_style(line: str) -> str:
    if line.startswith(("diff --git", "index ", "new file", "--- ", "+++ ")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")


def rules_table(rules: Sequence[Rule]) -> RenderableType:
    """All recipes, in the order in which they apply."""
    rows = [(rule.id, rule.contract.value, ", ".join(rule.needs), rule.title) for rule in rules]
    return columns(("recipe", "contract", "needs", "what"), rows)


def specs_table(specs: Sequence[Spec]) -> RenderableType:
    """All specs, by name."""
    rows = [(spec.name, spec.architecture, spec.images.geometry.value, ", ".join(spec.hub)) for spec in specs]
    return columns(("model", "architecture", "geometry", "hub"), rows)


def scan_table(scan: Scan, *, signs: bool) -> RenderableType:
    """Architecture by recipe. `signs`: one sign a status and a legend, to fit a terminal; else the words."""
    heads = [str(number) for number in range(1, len(scan.recipes) + 1)] if signs else scan.recipes
    table = columns(("architecture", "spec", *heads), [])
    for row in scan.rows:
        cells = [
            _cell(row.findings[name].status, signs) if row.findings else Text("?") for name in scan.recipes
        ]
        table.add_row(row.architecture, row.spec or "", *cells)
    parts: list[RenderableType] = [table, ""]
    if signs:
        parts += [Text(f"{number:>3}  {name}") for number, name in enumerate(scan.recipes, 1)]
        parts += [Text("  ".join(f"{sign} {status.value}" for status, sign in _SIGNS.items())), ""]
    parts += [Text(f"{row.architecture}: {row.problem}", style="red") for row in scan.rows if row.problem]
    parts += [
        Text(f"{row.architecture}: {name} drifted: {finding.reason}", style="red")
        for row in scan.rows
        for name, finding in row.findings.items()
        if finding.status is Status.drifted
    ]
    counts = scan.counts()
    total = ", ".join(f"{counts[status]} {status.value}" for status in Status)
    parts.append(Text(f"vLLM {scan.vllm}: {len(scan.rows)} architectures: {total}", style="bold"))
    return Group(*parts)


def _cell(status: Status, signs: bool) -> Text:
    return Text(_SIGNS[status] if signs else status.value, style=_STYLES[status])


def rule_page(rule: Rule) -> RenderableType:
    """One recipe for reading: what, why, where."""
    facts = [("contract", rule.contract.value + (f" ({rule.bound:g})" if rule.bound else ""))]
    facts += [("needs", ", ".join(rule.needs))] if rule.needs else []
    facts += [("when", f"{path}: {value}") for path, value in rule.when.items()]
    facts += [("brings", ", ".join(rule.runtime))] if rule.runtime else []
    facts += [("file", str(rule.path))] if rule.path else []
    edits = [
        (
            str(number),
            " or ".join(edit.file),
            edit.within or "",
            " or ".join(dict.fromkeys(_actions(edit.shapes))),
        )
        for number, edit in enumerate(rule.edits, 1)
    ]
    return Group(
        Text(f"{rule.id}: {rule.title}", style="bold"),
        "",
        rule.why.strip(),
        "",
        _facts(facts),
        "",
        columns(("edit", "file", "within", "action"), edits),
    )


def _actions(shapes: Iterable[RuleShape]) -> list[str]:
    return [action for shape in shapes for action, _ in shape.actions]


def spec_page(spec: Spec) -> RenderableType:
    """One spec: its facts by dotted path, as rules name them. `small` is told in words (report/small.py)."""
    facts = list(_dotted({key: value for key, value in spec.facts().items() if key != "small"}, ""))
    return _facts([*facts, *([("file", str(spec.path))] if spec.path else [])])


def _dotted(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _dotted(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        yield path, ", ".join(map(str, value))
    else:
        yield path, str(value)


def _facts(facts: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts:
        table.add_row(Text(name, style="bold"), value)
    return table


def gaps_text(draft: Draft) -> str:
    """What a person has to fill in, for stderr beside the draft."""
    return "\n".join(["To fill in or look at:", *(f"  {gap}" for gap in draft.gaps())])
