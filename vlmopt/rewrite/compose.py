"""Apply the splices of several owners to one text."""

from __future__ import annotations

from collections.abc import Sequence

from vlmopt.rewrite.edits import Splice
from vlmopt.rewrite.errors import Conflict
from vlmopt.rewrite.search import line_of


def compose(text: str, groups: Sequence[tuple[str, Sequence[Splice]]]) -> str:
    """Apply all splices of all groups (owner, splices); code put at one place stands in the order of the
    groups.

    The same import asked for by several is added once. Raises Conflict when two splices touch the same
    characters, or one is put inside what another replaces.
    """
    ordered: list[tuple[Splice, str]] = []
    imports: set[tuple[int, str]] = set()
    for owner, splices in groups:
        for splice in splices:
            if splice.kind == "import":
                key = (splice.start, splice.text)
                if key in imports:
                    continue
                imports.add(key)
            ordered.append((splice, owner))
    ordered.sort(key=lambda item: _order(item[0]))
    out: list[str] = []
    done = 0
    before: tuple[Splice, str] | None = None
    for splice, owner in ordered:
        if splice.start < done:
            assert before is not None
            raise Conflict(_conflict(text, before, (splice, owner)))
        out.append(text[done : splice.start])
        out.append(splice.text)
        done = splice.end
        before = (splice, owner)
    out.append(text[done:])
    return "".join(out)


def _order(splice: Splice) -> tuple[int, bool, bool, int]:
    """By place; what is put at a place goes before what replaces the characters from there on, and lines
    that end an inner block go before lines of an outer one. Sorting is stable, so the rest stays in the
    order given."""
    line = splice.text.lstrip("\r\n")
    depth = len(line) - len(line.lstrip(" \t"))
    return splice.start, splice.end > splice.start, splice.kind != "import", -depth


def _conflict(text: str, first: tuple[Splice, str], second: tuple[Splice, str]) -> str:
    line = line_of(text, second[0].start)
    names = [f"{owner} (edit {splice.edit})" for splice, owner in (first, second)]
    return f"{names[0]} and {names[1]} change the same code at line {line}"
