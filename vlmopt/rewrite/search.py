"""Find the matches of a pattern inside a scope."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from vlmopt.rewrite.errors import PatternError
from vlmopt.rewrite.matcher import NONE, Bindings, Matcher, Nodes, equal
from vlmopt.rewrite.nodes import Block, Definition, statements
from vlmopt.rewrite.pattern import Kind, Pattern, compile_pattern
from vlmopt.rewrite.region import Region

_LITERALS = (Kind.expression, Kind.arguments, Kind.statements, Kind.decorators)


@dataclass(frozen=True, eq=False)
class Match:
    """A place where a pattern matches: `nodes` are instances of the pattern's top nodes, from `start` to
    `end`."""

    region: Region
    kind: Kind
    nodes: Nodes
    bound: Bindings
    start: int
    end: int

    @property
    def line(self) -> int:
        """The 1-based line that the match begins on."""
        return line_of(self.region.text, self.start)


def line_of(text: str, offset: int) -> int:
    """The 1-based line of an offset."""
    before = text[:offset]
    return 1 + before.count("\n") + before.count("\r") - before.count("\r\n")


def find(
    pattern: Pattern,
    region: Region,
    scope: cst.CSTNode,
    where: Mapping[str, str],
    *,
    open_headers: bool = True,
) -> list[Match]:
    """All matches of a pattern inside a node, in source order."""
    matcher = Matcher(pattern.holes, open_headers)
    found = []
    for nodes, at in sequences(pattern, region, scope):
        for bound, end in matcher.prefix(pattern.nodes, nodes, NONE, 0, at):
            if end > at and _whole_lines(pattern, region, nodes, at, end) and satisfied(where, bound, region):
                found.append(_match(pattern, region, nodes[at:end], bound))
                break
    return sorted(found, key=lambda match: (match.start, -match.end))


def _match(pattern: Pattern, region: Region, nodes: Nodes, bound: Bindings) -> Match:
    start, end = region.inner(nodes[0])[0], region.inner(nodes[-1])[1]
    first = pattern.nodes[0]
    if isinstance(first, Definition) and first.decorators:
        start = region.statement_start(nodes[0])
    return Match(region, pattern.kind, nodes, bound, start, end)


def inside(region: Region, node: cst.CSTNode, scope: cst.CSTNode) -> bool:
    """Whether a node lies inside a scope."""
    start, end = region.outer(scope)
    return start <= region.inner(node)[0] and region.inner(node)[1] <= end


def sequences(pattern: Pattern, region: Region, scope: cst.CSTNode) -> Iterator[tuple[Nodes, int]]:
    """The sequences of nodes in which a pattern may match, each with an index to start at."""
    first = pattern.nodes[0]
    if pattern.kind is Kind.expression:
        for node in region.by_type.get(type(first), ()):
            if inside(region, node, scope) and is_value(region, node):
                yield (node,), 0
        return
    for nodes in _containers(pattern.kind, region, scope):
        for at, node in enumerate(nodes):
            if type(node) is type(first) or first in pattern.holes:
                yield nodes, at


def _containers(kind: Kind, region: Region, scope: cst.CSTNode) -> Iterator[Nodes]:
    if kind is Kind.statements:
        for block in blocks(region, scope):
            yield statements(block)
        return
    owners: tuple[type[cst.CSTNode], ...] = (cst.Call,)
    if kind is Kind.decorators:
        owners = (cst.FunctionDef, cst.ClassDef)
    elif kind is Kind.entries:
        owners = (cst.Dict,)
    for owner_type in owners:
        for node in region.by_type.get(owner_type, ()):
            if not inside(region, node, scope):
                continue
            if isinstance(node, cst.Call):
                yield tuple(node.args)
            elif isinstance(node, cst.Dict):
                yield tuple(node.elements)
            elif isinstance(node, Definition):
                yield tuple(node.decorators)


def blocks(region: Region, scope: cst.CSTNode) -> Iterator[Block]:
    """The blocks of statements inside a scope."""
    for kind in (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite):
        for node in region.by_type.get(kind, ()):
            if node is scope or (kind is not cst.Module and inside(region, node, scope)):
                assert isinstance(node, Block)
                yield node


def is_value(region: Region, node: cst.CSTNode) -> bool:
    """Whether an expression is used as one: not the name behind a dot, of a keyword, a definition or an
    import."""
    parent = region.parents.get(node)
    if isinstance(parent, cst.Attribute):
        return parent.attr is not node and is_value(region, parent)
    if isinstance(parent, cst.Arg):
        return parent.keyword is not node
    if isinstance(parent, Definition | cst.Param):
        return parent.name is not node
    return not isinstance(parent, cst.ImportAlias | cst.ImportFrom | cst.NameItem)


def _whole_lines(pattern: Pattern, region: Region, nodes: Nodes, at: int, end: int) -> bool:
    """Whether matched statements begin and end with their lines, not beside another statement after a `;`."""
    if pattern.kind is not Kind.statements:
        return True
    first, last = _siblings(region, nodes[at]), _siblings(region, nodes[end - 1])
    return first[0] is nodes[at] and last[-1] is nodes[end - 1]


def _siblings(region: Region, node: cst.CSTNode) -> Nodes:
    """The statements on the line of a statement."""
    parent = region.parents[node]
    if isinstance(parent, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        return tuple(parent.body)
    return (node,)


def bound_code(region: Region, nodes: Nodes) -> str:
    """The text of bound nodes."""
    if not nodes:
        return ""
    return region.text[region.code_span(nodes[0])[0] : region.code_span(nodes[-1])[1]]


def violated(where: Mapping[str, str], bound: Bindings, region: Region) -> str | None:
    """The first name whose bound code is not what `where` asks for."""
    for name, wanted in where.items():
        if name in bound and not _accepts(wanted, bound[name], region):
            return name
    return None


def satisfied(where: Mapping[str, str], bound: Bindings, region: Region) -> bool:
    """Whether all bound code is what `where` asks for."""
    return violated(where, bound, region) is None


def _accepts(wanted: str, nodes: Nodes, region: Region) -> bool:
    code = bound_code(region, nodes)
    if is_regex(wanted):
        return re.search(wanted[1:-1], code) is not None
    if code.strip() == wanted.strip():
        return True
    literal = _literal(wanted)
    return literal is not None and equal(literal, nodes)


def is_regex(wanted: str) -> bool:
    """Whether a constraint is written `/regex/`."""
    return len(wanted) > 2 and wanted[0] == wanted[-1] == "/"


@lru_cache(maxsize=1024)
def _literal(wanted: str) -> Nodes | None:
    try:
        return compile_pattern(wanted, _LITERALS).nodes
    except PatternError:
        return None


def check_where(where: Mapping[str, str], names: frozenset[str]) -> None:
    """Raises PatternError when a constraint is on a name that the pattern does not bind, or is no regex."""
    for name, wanted in where.items():
        if name not in names:
            raise PatternError(f"where: the pattern binds no ${name}")
        if is_regex(wanted):
            try:
                re.compile(wanted[1:-1])
            except re.error as error:
                raise PatternError(f"where: {name}: not a regular expression: {error}") from None
