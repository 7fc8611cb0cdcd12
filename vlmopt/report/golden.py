"""What `vlmopt golden` says: tables for people, and the JSON objects that docs/cli.md describes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from vlmopt.golden.outputs import Stage
from vlmopt.report.terminal import columns

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vlmopt.golden.check import Checked, Row


def recorded_table(done: Mapping[str, str]) -> RenderableType:
    """What became of each model's file."""
    return columns(("model", "golden outputs"), list(done.items()))


def recorded_object(done: Mapping[str, str]) -> dict[str, Any]:
    """Of `golden record`."""
    return {"recorded": [{"model": model, "file": became} for model, became in done.items()]}


def checked_tables(checked: Sequence[Checked]) -> RenderableType:
    """One table a model: the distance of each party to the golden outputs, stage by stage."""
    parts: list[RenderableType] = []
    for each in checked:
        parts += [
            _title(each),
            columns(
                ("stage", "party", "distance", "in case", "known difference", "result"), map(_row, each.rows)
            ),
        ]
        parts += [Text(f"stock differs in {', '.join(names)}: {why}") for why, names in _reasons(each)]
        parts += [*map(Text, _notes(each)), Text("")]
    return Group(*parts[:-1])


def checked_object(checked: Sequence[Checked]) -> dict[str, Any]:
    """Of `golden check`."""
    return {
        "holds": all(each.holds for each in checked),
        "models": [
            {
                "model": each.golden.model,
                "holds": each.holds,
                "fork": str(each.fork) if each.fork else None,
                "recorded_with": _versions(each),
                "checked_with": dict(each.versions),
                "why": {name: why for why, names in _reasons(each) for name in names},
                "rows": [
                    {
                        "stage": row.stage.value,
                        "party": row.party.value,
                        "distance": _number(row.distance),
                        "case": row.case,
                        "known_distance": _number(row.known),
                        "holds": not row.breaches,
                        "breaches": list(row.breaches),
                    }
                    for row in each.rows
                ],
            }
            for each in checked
        ],
    }


def _reasons(each: Checked) -> list[tuple[str, list[str]]]:
    """Why stock differs, and in which cases."""
    out: dict[str, list[str]] = {}
    for name, case in each.golden.cases.items():
        if case.why:
            out.setdefault(case.why, []).append(name)
    return list(out.items())


def _title(each: Checked) -> Text:
    fork = each.fork or "made for this check"
    return Text(f"{each.golden.model}: {len(each.golden.cases)} cases; fork: {fork}", style="bold")


def _row(row: Row) -> tuple[str | Text, ...]:
    good, bad = Text("holds", style="green"), Text(f"differs in {', '.join(row.breaches)}", style="bold red")
    far = "equal" if row.distance is None else _distance(row.stage, row.distance)
    known = "" if row.known is None else _distance(row.stage, row.known)
    return row.stage.value, row.party.value, far, row.case or "", known, bad if row.breaches else good


def _distance(stage: Stage, value: float) -> str:
    if stage is Stage.answer:
        return "another text"
    if math.isinf(value):
        return "another type or shape"
    return f"{value:.0f} tokens" if stage in (Stage.token_ids, Stage.tokens) else f"{value:.2g}"


def _notes(each: Checked) -> Iterator[str]:
    others = [
        f"{name} {each.versions.get(name, 'none')} instead of {version}"
        for name, version in _versions(each).items()
        if each.versions.get(name) != version
    ]
    if others:
        yield f"recorded with other versions: {', '.join(others)}"


def _versions(each: Checked) -> dict[str, str]:
    return {**each.golden.versions, "vllm": each.golden.vllm}


def _number(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "inf" if value is not None and math.isinf(value) else value
