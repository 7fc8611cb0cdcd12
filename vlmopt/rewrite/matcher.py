"""Match a pattern against nodes, with backtracking over runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import libcst as cst

from vlmopt.rewrite.nodes import Part, code_fields, parts, same_type, string_value
from vlmopt.rewrite.pattern import Hole

Nodes = tuple[cst.CSTNode, ...]
Bindings = Mapping[str, Nodes]
NONE: Bindings = MappingProxyType({})

_ELEMENTS = (cst.Arg, cst.Param, cst.BaseElement, cst.BaseDictElement, cst.ImportAlias, cst.SubscriptElement)
_MARKERS = (cst.ParamStar, cst.ParamSlash)
_SMALL = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
_string_value = lru_cache(maxsize=8192)(string_value)


def unwrap(node: cst.CSTNode) -> cst.CSTNode:
    """The expression in a plain argument, element or subscript, else the node."""
    if isinstance(node, cst.Arg) and node.keyword is None and not node.star:
        return node.value
    if isinstance(node, cst.Element):
        return node.value
    if isinstance(node, cst.SubscriptElement) and isinstance(node.slice, cst.Index) and not node.slice.star:
        return node.slice.value
    if isinstance(node, cst.Expr):
        return node.value
    return node


def fits(whole: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether a node may fill the place that the hole `whole` stands in."""
    if isinstance(whole, cst.Name):
        return isinstance(node, cst.BaseExpression)
    if isinstance(whole, cst.Expr):
        return isinstance(node, _SMALL)
    if isinstance(whole, cst.Param):
        return isinstance(node, (cst.Param, *_MARKERS))
    return isinstance(node, _ELEMENTS)


def _is_no_value(node: cst.CSTNode) -> bool:
    """Whether a node only has a meaning where it stands: the `*` and `/` of parameters, the slice of a
    subscript."""
    return isinstance(node, _MARKERS) or (
        isinstance(node, cst.SubscriptElement) and not isinstance(unwrap(node), cst.BaseExpression)
    )


@dataclass(frozen=True)
class Matcher:
    """Matches nodes against pattern nodes whose `holes` bind.

    With `open_headers`, a class or function in the pattern that names no decorators, no return type and no
    parentheses after the class's name leaves these open.
    """

    holes: Mapping[cst.CSTNode, Hole]
    open_headers: bool = False

    def match(self, pattern: Part, found: Part, bound: Bindings = NONE) -> Iterator[Bindings]:
        """Every way in which `found` is an instance of `pattern` given what is bound already."""
        if isinstance(pattern, tuple):
            if isinstance(found, tuple):
                yield from self.sequence(pattern, found, bound, 0, 0)
            return
        if not isinstance(pattern, cst.CSTNode):
            if pattern == found:
                yield bound
            return
        if not isinstance(found, cst.CSTNode):
            return
        hole = self.holes.get(pattern)
        if hole is not None:
            if fits(pattern, found) and not _is_no_value(found):
                yield from self.bind(hole, (found,), bound)
            return
        if not same_type(pattern, found):
            return
        if isinstance(pattern, cst.SimpleString) and isinstance(found, cst.SimpleString):
            same = pattern.value == found.value or _equal_strings(pattern.value, found.value)
            yield from (bound,) if same else ()
            return
        if isinstance(pattern, cst.FormattedString) and isinstance(found, cst.FormattedString):
            if _prefix(pattern.start) == _prefix(found.start):
                yield from self.match(tuple(pattern.parts), tuple(found.parts), bound)
            return
        left, right = parts(pattern), parts(found)
        if self.open_headers:
            left, right = _open(pattern, left, right)
        yield from self._all(left, right, bound, 0)

    def _all(
        self, left: tuple[Part, ...], right: tuple[Part, ...], bound: Bindings, index: int
    ) -> Iterator[Bindings]:
        if index == len(left):
            yield bound
            return
        for extended in self.match(left[index], right[index], bound):
            yield from self._all(left, right, extended, index + 1)

    def sequence(
        self, pattern: Nodes, found: Nodes, bound: Bindings, at: int, start: int, *, whole: bool = True
    ) -> Iterator[Bindings]:
        """Match `found[start:]` against `pattern[at:]`; without `whole`, a beginning of it is enough."""
        for extended, end in self.prefix(pattern, found, bound, at, start):
            if not whole or end == len(found):
                yield extended

    def prefix(
        self, pattern: Nodes, found: Nodes, bound: Bindings, at: int, start: int
    ) -> Iterator[tuple[Bindings, int]]:
        """Every way to match `pattern[at:]` from `found[start]` on, with the index behind the match."""
        if at == len(pattern):
            yield bound, start
            return
        hole = self.holes.get(pattern[at])
        if hole is not None and hole.run:
            for end in range(start, len(found) + 1):
                if end > start and not fits(pattern[at], found[end - 1]):
                    return
                for extended in self.bind(hole, found[start:end], bound):
                    yield from self.prefix(pattern, found, extended, at + 1, end)
            return
        if start < len(found):
            for extended in self.match(pattern[at], found[start], bound):
                yield from self.prefix(pattern, found, extended, at + 1, start + 1)

    def bind(self, hole: Hole, nodes: Nodes, bound: Bindings) -> Iterator[Bindings]:
        """Bind a hole, or see that it is bound to equal code."""
        if hole.name is None:
            yield bound
            return
        if not hole.run:
            nodes = (unwrap(nodes[0]),)
        before = bound.get(hole.name)
        if before is None:
            yield {**bound, hole.name: nodes}
        elif equal(before, nodes):
            yield bound


_EXACT = Matcher({})


def equal(left: Nodes, right: Nodes) -> bool:
    """Whether two runs of nodes are the same code but for layout, comments and quotes."""
    return any(True for _ in _EXACT.match(left, right))


def _prefix(start: str) -> str:
    return start.rstrip("\"'").lower()


def _equal_strings(left: str, right: str) -> bool:
    a, b = _string_value(left), _string_value(right)
    return type(a) is type(b) and a == b


def _open(
    pattern: cst.CSTNode, left: tuple[Part, ...], right: tuple[Part, ...]
) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Leave out of both sides what the header of a class or function in the pattern leaves open."""
    free: tuple[bool, ...]
    if isinstance(pattern, cst.ClassDef):
        no_bases = isinstance(pattern.lpar, cst.MaybeSentinel)
        free = (not pattern.decorators, False, no_bases, False, pattern.type_parameters is None)
    elif isinstance(pattern, cst.FunctionDef):
        optional = ("decorators", "returns", "type_parameters")
        free = tuple(name in optional and not getattr(pattern, name) for name in code_fields(cst.FunctionDef))
    else:
        return left, right
    keep = [index for index, is_free in enumerate(free) if not is_free]
    return tuple(left[i] for i in keep), tuple(right[i] for i in keep)
