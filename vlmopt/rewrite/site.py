"""Where code goes: from a match and an action to one splice."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from vlmopt.rewrite.edits import Action, Splice
from vlmopt.rewrite.matcher import Bindings
from vlmopt.rewrite.nodes import Definition, is_docstring, is_torn
from vlmopt.rewrite.pattern import Kind, Pattern
from vlmopt.rewrite.region import NEWLINE, Region
from vlmopt.rewrite.search import Match
from vlmopt.rewrite.template import Place, render


class Misfit(Exception):
    """The code cannot be written at a match; the message says why."""


@dataclass(frozen=True)
class Writer:
    """Turns matches of one shape into splices. Raises Misfit where the code does not fit the place."""

    action: Action
    template: Pattern
    edit: str

    def splice(self, match: Match) -> Splice:
        """The splice that carries out the action on a match."""
        if self.action is Action.replace:
            return self._replace(match)
        if self.action in (Action.before, Action.after):
            if match.kind is Kind.decorators:
                return self._beside(
                    match, match.nodes[0], match.nodes[-1], match.region.indent_at(match.start)
                )
            return self._sibling(match)
        target = match.nodes[0]
        if self.action is Action.base:
            return self._base(match, target)
        body = getattr(target, "body", None)
        if isinstance(target, cst.Module):
            return self._module(match, target)
        if not isinstance(body, cst.BaseSuite):
            raise Misfit("the match has no body")
        return self._body(match, body)

    def _render(self, match: Match, indent: str) -> str:
        region = match.region
        place = Place(indent, region.indent, region.newline_at(match.start), match.start, match.end)
        return render(self.template, match.bound, region, place)

    def _make(self, start: int, end: int, text: str) -> Splice:
        return Splice(start, end, text, self.edit, "code")

    # replace

    def _replace(self, match: Match) -> Splice:
        region = match.region
        text = self._render(match, region.indent_at(match.start))
        if match.kind is Kind.expression:
            line = whole_statement(region, match.nodes[0])
            if self.template.kind is Kind.statements:
                if line is None:
                    raise Misfit("the code to write is a statement, but the match is inside of one")
                start, end = region.inner(line)
                return self._statements(match, line, start, end, text)
            return self._make(match.start, match.end, self._guarded(match, text))
        if match.kind is Kind.statements:
            return self._statements(match, match.nodes[0], match.start, match.end, text)
        return self._make(match.start, match.end, text)

    def _guarded(self, match: Match, text: str) -> str:
        """Parentheses around an expression that its neighbours would tear apart."""
        node, new = match.nodes[0], self.template.nodes[0]
        # The template itself is parsed inside one pair of parentheses.
        bare = not getattr(node, "lpar", ()) and len(getattr(new, "lpar", ())) < 2
        return f"({text})" if bare and is_torn(new, match.region.parents.get(node)) else text

    def _statements(self, match: Match, node: cst.CSTNode, start: int, end: int, text: str) -> Splice:
        suite = match.region.parents.get(node)
        compound = any(isinstance(new, cst.BaseCompoundStatement) for new in self.template.nodes)
        if isinstance(suite, cst.SimpleStatementSuite) and (compound or len(self.template.nodes) > 1):
            return self._suite(match, suite, keep=False)
        return self._make(start, end, text)

    # before, after

    def _sibling(self, match: Match) -> Splice:
        region = match.region
        first, last = member(region, match.nodes[0]), member(region, match.nodes[-1])
        suite = region.parents[first]
        if isinstance(suite, cst.SimpleStatementSuite):
            return self._suite(match, suite, keep=True)
        return self._beside(match, first, last, region.indent_at(region.statement_start(first)))

    def _beside(self, match: Match, first: cst.CSTNode, last: cst.CSTNode, indent: str) -> Splice:
        region, text = match.region, self._render(match, indent)
        spaced = match.kind is not Kind.decorators and (
            isinstance(self._edge(), Definition) or isinstance(first, Definition)
        )
        blank = self._blank_lines(region, first) if spaced else 0
        if self.action is Action.before:
            at = commented_start(region, first)
            return self._line(region, at, indent + text, blank_after=blank)
        return self._line(region, region.outer(last)[1], indent + text, blank_before=blank)

    def _edge(self) -> cst.CSTNode:
        return self.template.nodes[-1 if self.action is Action.before else 0]

    @staticmethod
    def _blank_lines(region: Region, node: cst.CSTNode) -> int:
        """How many blank lines stand between definitions at the level of a node."""
        if isinstance(region.parents.get(node), cst.Module):
            return 2
        around = next((n for n in region.ancestors(node) if isinstance(n, Definition)), None)
        return 1 if isinstance(around, cst.ClassDef) else 0

    def _line(
        self, region: Region, at: int, text: str, *, blank_before: int = 0, blank_after: int = 0
    ) -> Splice:
        """Put lines of code at the start of a line, or behind a last line that has no end."""
        newline = region.newline_at(at)
        before, after = newline * blank_before, newline * blank_after
        if at > region.start and region.text[at - 1] not in "\r\n":
            return self._make(at, at, newline + before + text)
        return self._make(at, at, before + text + newline + after)

    # bodies

    def _suite(self, match: Match, suite: cst.SimpleStatementSuite, *, keep: bool) -> Splice:
        """Make a block of `if x: y`, with the code before, behind or in place of `y`."""
        region = match.region
        start = region.outer(suite)[0]
        old_start, end = region.inner(suite.body[0])[0], region.inner(suite.body[-1])[1]
        newline = region.newline_at(start)
        # Of the statement's own line: the colon may stand on a continuation of it, indented at will.
        indent = region.indent_at(region.inner(region.parents[suite])[0]) + region.indent
        lines = [self._render(match, indent)]
        if keep:
            end = old_start + len(region.text[old_start : region.outer(suite)[1]].rstrip())
            first = self.action in (Action.before, Action.body_start, Action.attribute)
            first = first and not (self.action is not Action.before and is_docstring(suite.body[0]))
            lines.insert(1 if first else 0, region.text[old_start:end])
        return self._make(start, end, "".join(newline + indent + line for line in lines))

    def _body(self, match: Match, body: cst.BaseSuite) -> Splice:
        region = match.region
        if isinstance(body, cst.SimpleStatementSuite):
            return self._suite(match, body, keep=True)
        assert isinstance(body, cst.IndentedBlock)
        indent = region.indent_at(region.statement_start(body.body[0]))
        text = indent + self._render(match, indent)
        if self.action is Action.body_end:
            return self._line(region, region.outer(body)[1], text)
        if self.action is Action.method:
            return self._line(region, region.outer(body)[1], text, blank_before=1)
        head = 1 if is_docstring(body.body[0]) else 0
        if self.action is Action.attribute:
            while head < len(body.body) and is_attribute(body.body[head]):
                head += 1
        at = region.outer(body.body[head - 1])[1] if head else region.outer(body.body[0])[0]
        tight = head < len(body.body) and isinstance(body.body[head], Definition)
        tight = tight and NEWLINE.match(region.text, at) is None and self.action is Action.attribute
        return self._line(region, at, text, blank_after=1 if tight else 0)

    def _module(self, match: Match, module: cst.Module) -> Splice:
        region = match.region
        text = self._render(match, "")
        if self.action is Action.body_end:
            return self._line(region, region.end, text)
        if self.action is not Action.body_start:
            raise Misfit("a module takes body_start and body_end only")
        at = region.outer(module.body[0])[0] if module.body else region.end
        for statement in module.body:
            if not (is_docstring(statement) or is_future(statement)):
                break
            at = region.outer(statement)[1]
        return self._line(region, at, text)

    def _base(self, match: Match, target: cst.CSTNode) -> Splice:
        if not isinstance(target, cst.ClassDef):
            raise Misfit("the match is no class")
        region, text = match.region, self._render(match, match.region.indent_at(match.start))
        if target.bases:
            at = region.inner(target.bases[-1])[1]
            return self._make(at, at, f", {text}")
        if target.keywords:
            at = region.inner(target.keywords[0])[0]
            return self._make(at, at, f"{text}, ")
        # The name is replaced along with it, so that a second base added by someone else is a conflict.
        start, end = region.inner(target.name)
        if isinstance(target.lpar, cst.LeftParen):
            close = region.text.index(")", end)
            return self._make(start, close, region.text[start:close] + text)
        return self._make(start, end, f"{region.text[start:end]}({text})")


def member(region: Region, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement around a node (or the node itself) that stands in a block of statements."""
    for inner, around in zip([node, *region.ancestors(node)], region.ancestors(node), strict=False):
        if isinstance(around, cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite):
            return inner
    raise Misfit("the match stands in no block of statements")


def whole_statement(region: Region, node: cst.CSTNode) -> cst.CSTNode | None:
    """The expression statement that consists of a node, when it is alone on its line."""
    statement = region.parents.get(node)
    if not isinstance(statement, cst.Expr):
        return None
    line = region.parents[statement]
    if isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite) and len(line.body) == 1:
        return statement
    return None


def commented_start(region: Region, node: cst.CSTNode) -> int:
    """The start of the line of a statement, or of the comments directly above it."""
    at = region.line_start(region.statement_start(node))
    limit = region.outer(node)[0]
    while at > limit:
        above = region.line_start(at - 1 if region.text[at - 2 : at] != "\r\n" else at - 2)
        if not region.text[above:at].lstrip().startswith("#"):
            break
        at = above
    return at


def is_attribute(statement: cst.CSTNode) -> bool:
    """Whether a statement of a class body sets attributes (or documents one that a string follows)."""
    return isinstance(statement, cst.SimpleStatementLine) and (
        is_docstring(statement) or all(isinstance(s, cst.Assign | cst.AnnAssign) for s in statement.body)
    )


def is_future(statement: cst.CSTNode) -> bool:
    """Whether a statement is `from __future__ import ...`."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    first = statement.body[0]
    return (
        isinstance(first, cst.ImportFrom)
        and isinstance(first.module, cst.Name)
        and first.module.value == "__future__"
    )


def scope_match(region: Region, scope: cst.CSTNode, bound: Bindings) -> Match:
    """A scope as a match, for the actions whose target it is."""
    start, end = region.inner(scope)
    return Match(region, Kind.statements, (scope,), bound, start, end)
