"""A file's diff as two sides: which lines stand beside which, and what of a line is new."""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from vlmopt.fork.series import FileDiff, Line
from vlmopt.report.colour import Piece, coloured_lines
from vlmopt.report.versions import Version

_ALIKE = 0.5  # how alike two lines must be for one to be the other, changed
_DEEPEST = 10  # steps of indentation that the style sheet knows
_MANY = 40  # lines; a larger change is not searched for pairs


@dataclass(frozen=True)
class Cell:
    """One line on one side. `code` is HTML; `depth` is how far it is indented, in steps of four columns."""

    number: int
    code: Markup
    depth: int


@dataclass(frozen=True)
class Block:
    """Lines that are the same on both sides, or a change: `old` gives way to `new`.

    Both sides are of one length; None fills up where a line has no counterpart.
    """

    same: bool
    old: tuple[Cell | None, ...]
    new: tuple[Cell | None, ...]

    @property
    def removes(self) -> bool:
        return not self.same and any(self.old)

    @property
    def adds(self) -> bool:
        return not self.same and any(self.new)


@dataclass(frozen=True)
class Hunk:
    """Blocks that follow one another. `scope` is the class and function around them, or "" at the top."""

    old: int
    new: int
    scope: str
    blocks: tuple[Block, ...]


def hunks(file: FileDiff, version: Version | None) -> list[Hunk]:
    """The hunks of one file.

    Args:
        file: the change.
        version: the whole file before and after it; without it a hunk is coloured by itself.
    """
    old, new = _Side(file, version, "old"), _Side(file, version, "new")
    scopes = _Scopes(version.after if version else ())
    return [_hunk(lines, old, new, scopes) for lines in _split(file.lines)]


def _split(lines: Sequence[Line]) -> Iterator[list[Line]]:
    current: list[Line] = []
    for line in lines:
        if line.mark != "hunk":
            current.append(line)
        elif current:
            yield current
            current = []
    if current:
        yield current


def _hunk(lines: Sequence[Line], old: _Side, new: _Side, scopes: _Scopes) -> Hunk:
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        end = at
        same = lines[at].mark == "same"
        while end < len(lines) and (lines[end].mark == "same") == same:
            end += 1
        blocks.append(_same(lines[at:end], old, new) if same else _change(lines[at:end], old, new))
        at = end
    changed = next((at for at, line in enumerate(lines) if line.mark != "same"), 0)
    first = next((line.new for line in lines[changed:] if line.new), 1)
    return Hunk(lines[0].old or 0, lines[0].new or 0, scopes.at(first), tuple(blocks))


def _same(lines: Sequence[Line], old: _Side, new: _Side) -> Block:
    return Block(True, tuple(old.cell(line) for line in lines), tuple(new.cell(line) for line in lines))


def _change(lines: Sequence[Line], old: _Side, new: _Side) -> Block:
    removed = [line for line in lines if line.mark == "removed"]
    added = [line for line in lines if line.mark == "added"]
    left: list[Cell | None] = []
    right: list[Cell | None] = []
    for before, after in _rows(removed, added):
        gone, come = _marks(before.text, after.text) if before and after else ((), ())
        left.append(old.cell(before, gone) if before else None)
        right.append(new.cell(after, come) if after else None)
    return Block(False, tuple(left), tuple(right))


def _rows(removed: Sequence[Line], added: Sequence[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    """Pairs of lines that are alike stand beside each other; between pairs lines stand as they come."""
    i = j = 0
    for next_i, next_j in [*_pairs(removed, added), (len(removed), len(added))]:
        for step in range(max(next_i - i, next_j - j)):
            yield (
                removed[i + step] if i + step < next_i else None,
                added[j + step] if j + step < next_j else None,
            )
        if next_i < len(removed) and next_j < len(added):
            yield removed[next_i], added[next_j]
        i, j = next_i + 1, next_j + 1


def _pairs(removed: Sequence[Line], added: Sequence[Line]) -> list[tuple[int, int]]:
    """The pairing in order, without crossings, whose likeness is the largest in sum."""
    if len(removed) * len(added) > _MANY**2:
        return []
    best: list[list[tuple[float, tuple[tuple[int, int], ...]]]] = [[(0.0, ())] * (len(added) + 1)]
    for i, before in enumerate(removed):
        row: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
        for j, after in enumerate(added):
            options = [best[i][j + 1], row[j]]
            alike = _likeness(before.text, after.text)
            if alike >= _ALIKE:
                score, pairs = best[i][j]
                options.append((score + alike, (*pairs, (i, j))))
            row.append(max(options, key=lambda option: option[0]))
        best.append(row)
    return list(best[-1][-1][1])


def _likeness(before: str, after: str) -> float:
    if not before.strip() or not after.strip():
        return float(before.strip() == after.strip())
    matcher = difflib.SequenceMatcher(None, before.strip(), after.strip(), autojunk=False)
    # A bound that is cheap to find; most pairs of lines are far below.
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


# Characters that are not seen, or that change the order of those that are.
_ODD = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")

Spans = Sequence[tuple[int, int]]


def _marks(before: str, after: str) -> tuple[Spans, Spans]:
    """Which characters of two lines differ, word by word; nothing where most or every word does."""
    if _likeness(before, after) < _ALIKE:
        return (), ()
    old, new = (re.findall(r"\w+|\s+|.", text) for text in (before, after))
    gone, come, kept = [], [], False
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            kept = kept or any(not word.isspace() for word in old[i1:i2])
        else:
            gone.append((len("".join(old[:i1])), len("".join(old[:i2]))))
            come.append((len("".join(new[:j1])), len("".join(new[:j2]))))
    return (gone, come) if kept else ((), ())


class _Side:
    """The lines of one side, coloured."""

    def __init__(self, file: FileDiff, version: Version | None, side: str) -> None:
        self._side = side
        if version is not None:
            lines: Sequence[str] = version.before if side == "old" else version.after
            self._pieces = dict(enumerate(coloured_lines(file.path, lines), 1))
        else:
            shown = [line for line in file.lines if self._number(line) is not None]
            pieces = coloured_lines(file.path, [line.text for line in shown])
            self._pieces = {self._number(line) or 0: each for line, each in zip(shown, pieces, strict=True)}

    def _number(self, line: Line) -> int | None:
        return line.old if self._side == "old" else line.new

    def cell(self, line: Line, marks: Spans = ()) -> Cell:
        number = self._number(line) or 0
        depth = (len(line.text) - len(line.text.lstrip(" "))) // 4
        return Cell(number, _html(self._pieces.get(number, [("", line.text)]), marks), min(depth, _DEEPEST))


def _html(pieces: Sequence[Piece], marks: Spans) -> Markup:
    out = Markup()
    at = 0
    for name, text in pieces:
        for part, marked in _cut(text, at, marks):
            code = Markup("<mark>{}</mark>").format(_seen(part)) if marked else _seen(part)
            out += Markup('<span class="{}">{}</span>').format(name, code) if name else code
        at += len(text)
    return out


def _seen(text: str) -> Markup:
    """The text as HTML, with names in the place of characters that nobody sees."""
    out = Markup()
    at = 0
    for odd in _ODD.finditer(text):
        out += Markup('{}<span class="odd">U+{:04X}</span>').format(text[at : odd.start()], ord(odd[0]))
        at = odd.end()
    return out + Markup("{}").format(text[at:])


def _cut(text: str, start: int, marks: Spans) -> Iterator[tuple[str, bool]]:
    """The text, which begins at character `start` of its line, cut where marks begin and end."""
    at, end = start, start + len(text)
    for first, last in marks:
        low, high = max(first, at), min(last, end)
        if low < high:
            if low > at:
                yield text[at - start : low - start], False
            yield text[low - start : high - start], True
            at = high
    if at < end:
        yield text[at - start :], False


class _Scopes:
    """Which class and function a line of a Python file lies in."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._found: list[tuple[int, int, str]] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._visit(ast.parse("\n".join(lines)), "")
        except (SyntaxError, ValueError):
            self._found = []

    def _visit(self, node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                word = "class" if isinstance(child, ast.ClassDef) else "def"
                name = f"{outer} > {word} {child.name}" if outer else f"{word} {child.name}"
                self._found.append((child.lineno, child.end_lineno or child.lineno, name))
            self._visit(child, name)

    def at(self, line: int) -> str:
        """The innermost one; "" at the top of the file."""
        inside = [name for first, last, name in self._found if first <= line <= last]
        return inside[-1] if inside else ""
