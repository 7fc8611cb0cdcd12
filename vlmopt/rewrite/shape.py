"""A shape of an edit, compiled: what it looks for, where it writes, and whether its result stands there
already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from vlmopt.rewrite.edits import Action, Edit, Shape, Splice
from vlmopt.rewrite.errors import PatternError
from vlmopt.rewrite.imports import parse_import
from vlmopt.rewrite.matcher import NONE, Matcher, Nodes
from vlmopt.rewrite.nodes import Definition, statements
from vlmopt.rewrite.pattern import Kind, Pattern, compile_match
from vlmopt.rewrite.region import Region
from vlmopt.rewrite.scope import parse_scope
from vlmopt.rewrite.search import Match, check_where, find, line_of
from vlmopt.rewrite.site import Writer, member, scope_match
from vlmopt.rewrite.template import compile_template

_INSIDE = (Action.attribute, Action.method, Action.base)
_ON_SCOPE = (*_INSIDE, Action.body_start, Action.body_end)


@dataclass(frozen=True)
class Sites:
    """What a shape found in one scope: places still to change, places where its result stands, and why a
    place cannot be changed."""

    todo: tuple[Match, ...] = ()
    done: tuple[Match, ...] = ()
    misfit: tuple[Match, str] | None = None


@dataclass(frozen=True, eq=False)
class CompiledShape:
    """A shape with its pattern (None when the scope itself is the target) and template compiled.

    `reproduces` says that the template holds an instance of the pattern (`f($x)` -> `g(f($x))`).
    """

    shape: Shape
    pattern: Pattern | None
    template: Pattern
    reproduces: bool

    def may_match(self, text: str) -> bool:
        """A cheap test: False when no match can be in the text."""
        return self.pattern is None or self.pattern.occurs_in(text)

    def may_be_present(self, text: str) -> bool:
        """A cheap test: False when the result of the shape cannot be in the text."""
        return self.template.occurs_in(text)

    def sites(self, region: Region, scope: cst.CSTNode) -> Sites:
        """Where the shape applies inside a scope of a region."""
        where = self.shape.where
        if self.pattern is None:
            matches = [scope_match(region, scope, NONE)]
        else:
            matches = find(self.pattern, region, scope, where)
        if self.shape.action is Action.replace:
            return self._replacements(region, scope, matches, where)
        todo, done = [], []
        for match in matches:
            if self._stands_beside(match):
                done.append(match)
            elif (reason := self._clash(match)) is not None:
                return Sites(misfit=(match, reason))
            else:
                todo.append(match)
        return Sites(tuple(todo), tuple(done))

    def splices(self, matches: tuple[Match, ...], edit: str) -> tuple[Splice, ...]:
        """The splices that change the matches, each once. Raises Misfit when the code does not fit a
        place."""
        writer = Writer(self.shape.action, self.template, edit)
        return tuple(dict.fromkeys(writer.splice(match) for match in matches))

    def _replacements(
        self, region: Region, scope: cst.CSTNode, matches: list[Match], where: Mapping[str, str]
    ) -> Sites:
        """Tell matches from what the replacement itself has written.

        Where a replacement reproduces its pattern, a match inside a result is new code, unless it lies in
        what the result took over from the original.
        """
        if not self.template.is_specific:
            return Sites(tuple(matches))
        results = find(self.template, region, scope, where, open_headers=False)
        if self.reproduces:
            matches = [match for match in matches if not any(_wrote(result, match) for result in results)]
        done = [r for r in results if not any(m.start <= r.start and r.end <= m.end for m in matches)]
        return Sites(tuple(matches), tuple(done))

    def _stands_beside(self, match: Match) -> bool:
        """Whether the code of an insertion stands where it would go."""
        region, action = match.region, self.shape.action
        target = match.nodes[0]
        matcher = Matcher(self.template.holes)
        siblings: Nodes
        first: cst.CSTNode
        last: cst.CSTNode
        if action is Action.base:
            if not isinstance(target, cst.ClassDef):
                return False
            wanted = self.template.nodes
            return any(True for base in target.bases for _ in matcher.match(wanted, (base,), match.bound))
        if match.kind is Kind.decorators and action in (Action.before, Action.after):
            owner = region.parents[target]
            assert isinstance(owner, Definition)
            siblings, first, last = tuple(owner.decorators), target, match.nodes[-1]
        elif action in (Action.before, Action.after):
            first, last = member(region, target), member(region, match.nodes[-1])
            around = region.parents[first]
            siblings = statements(around)
            first, last = _small(first, 0), _small(last, -1)
        else:
            body = target if isinstance(target, cst.Module) else getattr(target, "body", None)
            if not isinstance(body, cst.Module | cst.BaseSuite):
                return False
            siblings = statements(body)
            return any(
                True
                for at in range(len(siblings))
                for _ in matcher.prefix(self.template.nodes, siblings, match.bound, 0, at)
            )
        here, behind = siblings.index(first), siblings.index(last) + 1
        starts = range(here) if action is Action.before else range(behind, len(siblings))
        return any(
            action is Action.after or end <= here
            for at in starts
            for _, end in matcher.prefix(self.template.nodes, siblings, match.bound, 0, at)
        )

    def _clash(self, match: Match) -> str | None:
        """Why a new attribute or method would silently replace one that the class has."""
        target = match.nodes[0]
        if self.shape.action not in (Action.attribute, Action.method) or not isinstance(target, cst.ClassDef):
            return None
        have = {name: node for node in statements(target.body) for name in _defined(node)}
        for node in self.template.nodes:
            for name in _defined(node):
                if name in have:
                    line = line_of(match.region.text, match.region.inner(have[name])[0])
                    return f"class {target.name.value} has another `{name}` already, at line {line}"
        return None


def _small(node: cst.CSTNode, index: int) -> cst.CSTNode:
    return node.body[index] if isinstance(node, cst.SimpleStatementLine) else node


def _defined(node: cst.CSTNode) -> tuple[str, ...]:
    """The names that a statement of a class body defines."""
    if isinstance(node, Definition):
        return (node.name.value,)
    targets: list[cst.CSTNode] = []
    if isinstance(node, cst.Assign):
        targets = [target.target for target in node.targets]
    elif isinstance(node, cst.AnnAssign):
        targets = [node.target]
    return tuple(target.value for target in targets if isinstance(target, cst.Name))


def _wrote(result: Match, match: Match) -> bool:
    """Whether a match is part of what a replacement wrote, and not of what it took over."""
    if not (result.start <= match.start and match.end <= result.end):
        return False
    region = result.region
    for nodes in result.bound.values():
        if nodes and region.outer(nodes[0])[0] <= match.start and match.end <= region.outer(nodes[-1])[1]:
            return False
    return True


@lru_cache(maxsize=2048)
def _compile(
    action: Action, match: str | None, code: str, where: tuple[tuple[str, str], ...]
) -> CompiledShape:
    shape = Shape(match, action, code, dict(where))
    if match is None:
        if action not in _ON_SCOPE:
            raise PatternError(f"{action}: a pattern to match is needed")
        pattern = None
    else:
        pattern = compile_match(match)
        if action in _ON_SCOPE and not (pattern.kind is Kind.statements and len(pattern.nodes) == 1):
            raise PatternError(
                f"{action}: the pattern must be one class, function or other statement with a body"
            )
        if action in _INSIDE and not isinstance(pattern.nodes[0], cst.ClassDef):
            raise PatternError(f"{action}: the pattern must be a class")
    names = frozenset[str]() if pattern is None else pattern.names
    check_where(shape.where, names)
    template = compile_template(code, _code_kinds(action, pattern), names)
    return CompiledShape(shape, pattern, template, pattern is not None and _occurs(pattern, template))


def _occurs(pattern: Pattern, template: Pattern) -> bool:
    """Whether a template holds an instance of a pattern, its holes taken as they are."""
    matches = find(pattern, template.region, template.region.module, {})
    end = template.offset + len(template.text)
    return any(template.offset <= match.start and match.end <= end for match in matches)


def _code_kinds(action: Action, pattern: Pattern | None) -> tuple[Kind, ...]:
    """What the code of a shape must be."""
    if action is Action.base:
        return (Kind.arguments,)
    if pattern is not None and pattern.kind is not Kind.statements and action is Action.replace:
        return (Kind.expression, Kind.statements) if pattern.kind is Kind.expression else (pattern.kind,)
    if pattern is not None and pattern.kind is Kind.decorators:
        return (Kind.decorators,)
    return (Kind.statements,)


def compile_shape(shape: Shape) -> CompiledShape:
    """Compile a shape; cached. Raises PatternError."""
    return _compile(shape.action, shape.match, shape.code, tuple(sorted(shape.where.items())))


def check(edit: Edit) -> None:
    """Compile everything in an edit without a text at hand. Raises PatternError at the first mistake."""
    for shape in edit.shapes:
        compile_shape(shape)
        if shape.match is None and edit.within is None and shape.action in _INSIDE:
            raise PatternError(f"{shape.action}: a class is needed, as a scope or as a pattern")
    if edit.within is not None:
        parse_scope(edit.within)
    for probe in edit.already:
        check_where(probe.where, compile_match(probe.match).names)
        if probe.within is not None:
            parse_scope(probe.within)
    for code in edit.imports:
        parse_import(code)
    low, high = edit.times
    if not 0 <= low <= high or high == 0:
        raise PatternError(f"times: {low} to {high} is no range of counts")
