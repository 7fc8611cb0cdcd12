"""The nearest place to a pattern that did not match, and the first thing about it that differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from vlmopt.rewrite.edits import Candidate
from vlmopt.rewrite.matcher import NONE, Matcher, fits
from vlmopt.rewrite.nodes import Definition, Part, parts, same_type
from vlmopt.rewrite.pattern import Pattern, spell
from vlmopt.rewrite.region import Region
from vlmopt.rewrite.scope import Step, definitions
from vlmopt.rewrite.search import bound_code, line_of, sequences, violated

_CLOSELY_COMPARED = 40
_SHOWN = 80


@dataclass(frozen=True)
class Difference:
    """Where a node stops being an instance of a pattern; a side is empty when it has nothing there."""

    expected: tuple[cst.CSTNode, ...] | str
    found: tuple[cst.CSTNode, ...] | str
    near: cst.CSTNode


@dataclass(frozen=True)
class Likeness:
    """How much of a pattern a node has (`same` of `total` nodes), and where it first differs."""

    same: float
    total: float
    difference: Difference | None

    def __add__(self, other: Likeness) -> Likeness:
        return Likeness(self.same + other.same, self.total + other.total, self.difference or other.difference)


_SAME = Likeness(1, 1, None)


class _Comparison:
    """Compares pattern nodes with found nodes; `near` is the last found node that was entered."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.matcher = Matcher(pattern.holes, open_headers=True)

    def likeness(self, expected: Part, found: Part, near: cst.CSTNode) -> Likeness:
        if isinstance(expected, tuple) and isinstance(found, tuple):
            return self.sequence(expected, found, near)
        if not isinstance(expected, cst.CSTNode) or not isinstance(found, cst.CSTNode):
            if expected == found:
                return Likeness(0, 0, None)
            return Likeness(0, 1, Difference(_side(expected), _side(found), near))
        hole = self.pattern.holes.get(expected)
        if hole is not None and fits(expected, found):
            return _SAME
        if any(True for _ in self.matcher.match(expected, found, NONE)):
            return Likeness(_size(expected), _size(expected), None)
        if not same_type(expected, found) or not _comparable(expected):
            alike = _spelling(expected, found)
            return Likeness(alike, _size(expected), Difference((expected,), (found,), found))
        total = _SAME
        for left, right in zip(parts(expected), parts(found), strict=True):
            if _left_open(expected, left):
                continue
            total += self.likeness(left, right, found)
        return total

    def sequence(
        self, expected: Sequence[cst.CSTNode], found: Sequence[cst.CSTNode], near: cst.CSTNode
    ) -> Likeness:
        """Align greedily: each expected node with the most alike of the nodes that are left."""
        total = Likeness(0, 0, None)
        at = 0
        has_run = False
        for node in expected:
            hole = self.pattern.holes.get(node)
            if hole is not None and hole.run:
                has_run = True
                continue
            best, best_at = Likeness(0, _size(node), Difference((node,), (), near)), at
            for index in range(at, len(found)):
                likeness = self.likeness(node, found[index], near)
                if likeness.same > best.same:
                    best, best_at = likeness, index + 1
            if best.same == 0 and at < len(found) and len(expected) == len(found):
                best, best_at = self.likeness(node, found[at], near), at + 1
            if best_at > at + 1 and not has_run:
                total += Likeness(0, 0, Difference((node,), (found[at],), found[at]))
            total += best
            at = best_at
        if at < len(found) and not has_run:
            total += Likeness(0, 0, Difference((), (found[at],), found[at]))
        return total


def _left_open(expected: cst.CSTNode, part: Part) -> bool:
    return isinstance(expected, Definition) and (part is None or part == ())


def _comparable(node: cst.CSTNode) -> bool:
    """Whether a difference is better shown inside a node than as the node itself."""
    return not isinstance(node, cst.Name | cst.SimpleString | cst.FormattedString | cst.BaseNumber)


def _spelling(expected: cst.CSTNode, found: cst.CSTNode) -> float:
    """How alike two names or strings that differ are written, to choose between places that differ as
    much."""
    if isinstance(expected, cst.Name | cst.SimpleString) and isinstance(found, cst.Name | cst.SimpleString):
        return difflib.SequenceMatcher(None, expected.value, found.value).ratio() / 2
    return 0


def _side(part: Part) -> tuple[cst.CSTNode, ...] | str:
    if isinstance(part, cst.CSTNode):
        return (part,)
    if isinstance(part, tuple):
        return part
    return "" if part is None or isinstance(part, bool) else part


def _size(node: cst.CSTNode) -> float:
    total = 1.0
    for part in parts(node):
        if isinstance(part, cst.CSTNode):
            total += _size(part)
        elif isinstance(part, tuple):
            total += sum(_size(child) for child in part)
    return total


def nearest(
    pattern: Pattern, places: Iterable[tuple[Region, cst.CSTNode]], where: Mapping[str, str]
) -> tuple[float, Candidate] | None:
    """The place most like a pattern inside the given scopes, with how alike it is (0 to 1); None without
    any."""
    comparison = _Comparison(pattern)
    width = len(pattern.nodes)
    found: list[tuple[int, Region, tuple[cst.CSTNode, ...]]] = []
    for region, scope in places:
        for nodes, at in sequences(pattern, region, scope):
            window = nodes[at : at + width]
            code = region.text[region.inner(window[0])[0] : region.inner(window[-1])[1]]
            words = sum(1 for word in pattern.words if word in code)
            found.append((words * 10_000 - len(code), region, window))
    found.sort(key=lambda item: -item[0])
    best: tuple[float, Candidate] | None = None
    for _, region, window in found[:_CLOSELY_COMPARED]:
        likeness = comparison.sequence(pattern.nodes, window, window[0])
        score = likeness.same / max(likeness.total, 1)
        if best is None or score > best[0]:
            text = _describe(pattern, region, window, likeness.difference, where)
            best = score, _candidate(region, region.inner(window[0])[0], text)
    return best


def _describe(
    pattern: Pattern,
    region: Region,
    window: tuple[cst.CSTNode, ...],
    difference: Difference | None,
    where: Mapping[str, str],
) -> str:
    if difference is not None:
        line = line_of(region.text, region.inner(difference.near)[0])
        expected = spell(_code(pattern.region, difference.expected))
        found = _code(region, difference.found)
        if not found:
            return f"expected `{_short(expected)}`, found nothing of the kind at line {line}"
        if not expected:
            return f"expected nothing more, found `{_short(found)}` at line {line}"
        return f"expected `{_short(expected)}`, found `{_short(found)}` at line {line}"
    for bound, _ in Matcher(pattern.holes, open_headers=True).prefix(pattern.nodes, window, NONE, 0, 0):
        name = violated(where, bound, region)
        if name is not None:
            line = line_of(region.text, region.inner(bound[name][0] if bound[name] else window[0])[0])
            code = _short(bound_code(region, bound[name]))
            return f"expected ${name} to be `{where[name]}`, found `{code}` at line {line}"
    return "the same name stands for different code in it"


def _code(region: Region, nodes: tuple[cst.CSTNode, ...] | str) -> str:
    if isinstance(nodes, str):
        return nodes
    return region.text[region.inner(nodes[0])[0] : region.inner(nodes[-1])[1]] if nodes else ""


def _short(code: str) -> str:
    line = re.sub(r"\s+", " ", code).strip()
    return line if len(line) <= _SHOWN else line[: _SHOWN - 4] + " ..."


def _candidate(region: Region, offset: int, difference: str) -> Candidate:
    end = region.text.find("\n", offset)
    code = region.text[region.line_start(offset) : end if end >= 0 else None]
    return Candidate(line_of(region.text, offset), code.strip(), difference)


def at_offset(region: Region, offset: int, difference: str) -> Candidate:
    """A candidate at an offset with a given account of what is wrong with it."""
    return _candidate(region, offset, difference)


def nearest_scope(region: Region, steps: tuple[Step, ...]) -> Candidate | None:
    """The class or function that most resembles the first step of a scope that cannot be found."""
    around: list[cst.CSTNode] = [region.module]
    for step in steps:
        below = [node for scope in around for node in definitions(region, scope)]
        inside = [node for node in below if step.accepts(node)]
        if inside:
            around = list(inside)
            continue
        same = [node for node in below if isinstance(node, cst.ClassDef) == step.is_class] or below
        if not same:
            offset = region.inner(around[0])[0]
            return _candidate(region, offset, f"expected `{step}` inside of it, found no class or function")
        rest = steps[steps.index(step) + 1 :][:1]

        def alike(node: Definition, step: Step = step, rest: tuple[Step, ...] = rest) -> float:
            holds = any(below.accepts(inner) for below in rest for inner in definitions(region, node))
            return difflib.SequenceMatcher(None, step.name, node.name.value).ratio() + holds / 4

        node = max(same, key=alike)
        name = node.name.value
        offset = region.inner(node)[0]
        kind = "class" if isinstance(node, cst.ClassDef) else "def"
        line = line_of(region.text, offset)
        return _candidate(region, offset, f"expected `{step}`, found `{kind} {name}` at line {line}")
    return None
