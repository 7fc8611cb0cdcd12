"""Templates: the code that an edit writes, with the text of what the match bound filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from vlmopt.rewrite.errors import PatternError
from vlmopt.rewrite.matcher import Bindings, Nodes
from vlmopt.rewrite.nodes import is_torn, parameters
from vlmopt.rewrite.pattern import Kind, Pattern, compile_pattern
from vlmopt.rewrite.region import NEWLINE, Region, Span

_BLANKS = re.compile(r"[ \t]*")
_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)


@dataclass(frozen=True)
class Place:
    """Where a template is written: the indentation of its line, one step of it and the line end in use
    there, and the offsets of the match, between which comments belong to it."""

    indent: str
    step: str
    newline: str
    start: int
    end: int


def compile_template(code: str, kinds: tuple[Kind, ...], names: frozenset[str]) -> Pattern:
    """Compile the code of a shape. Raises PatternError when it is malformed or uses a name that nothing
    binds."""
    try:
        template = compile_pattern(code.rstrip().removesuffix(","), kinds)
    except PatternError as error:
        raise PatternError(str(error).replace("of the pattern", "of the code to write", 1)) from None
    for hole in template.holes.values():
        if hole.name is None or hole.name not in names:
            raise PatternError(
                f"{hole} stands in the code to write, but the pattern to match binds no such name"
            )
    return template


def render(template: Pattern, bound: Bindings, region: Region, place: Place) -> str:
    """The text of a template with the bound code in place of its holes, laid out for a place.

    The first line carries no indentation; the others do. The inside of strings over several lines stays as
    it is.
    """
    writer = _Writer(template, place)
    for start, end, node in sorted(_substitutions(template, bound), key=lambda item: item[:2]):
        writer.copy(start)
        if node is not None:
            name = template.holes[node].name
            assert name is not None
            writer.out.append(_bound_text(bound[name], node, template, region, place, writer.indent))
        elif _is_only_statement(template, start, end):
            writer.out.append("pass")
        writer.at = end
    writer.copy(template.offset + len(template.text))
    return "".join(writer.out)


def _substitutions(template: Pattern, bound: Bindings) -> list[tuple[int, int, cst.CSTNode | None]]:
    """What to replace in the text of a template: the spans of holes, and None for what an empty run leaves
    behind."""
    found: list[tuple[int, int, cst.CSTNode | None]] = []
    for node, hole in template.holes.items():
        start, end = template.region.inner(node)
        if hole.name is not None and bound[hole.name]:
            found.append((start, end, node))
        elif _is_only_statement(template, start, end):
            found.append((start, end, None))
        else:
            found.append((*_gap(template, start, end), None))
    return found


def _is_only_statement(template: Pattern, start: int, end: int) -> bool:
    """Whether a span is all that a block of the template holds."""
    blocks = (*template.region.by_type.get(cst.IndentedBlock, ()),)
    return any(template.region.inner(block) == (start, end) for block in blocks)


def _gap(template: Pattern, start: int, end: int) -> Span:
    """The span of an empty run with the comma or the line that goes with it."""
    text, first = template.region.text, template.offset
    last = first + len(template.text)
    line_start = max(text.rfind("\n", first, start) + 1, first)
    line_end = text.find("\n", end, last)
    line_end = last if line_end < 0 else line_end
    if text[line_start:start].strip() == "" and text[end:line_end].strip() in ("", ","):
        return (line_start - 1, line_end) if line_start > first else (first, min(line_end + 1, last))
    if match := re.compile(r"\s*,[ \t]*").match(text, end, last):
        return start, match.end()
    if match := re.compile(r",\s*\Z").search(text[first:start]):
        return first + match.start(), end
    return start, end


class _Writer:
    """Copies the text of a template, its lines indented for a place; `indent` is that of the line being
    written."""

    def __init__(self, template: Pattern, place: Place) -> None:
        self.region = template.region
        self.place = place
        self.at = template.offset
        self.indent = place.indent
        self.out: list[str] = []

    def copy(self, end: int) -> None:
        text = self.region.text
        while (newline := NEWLINE.search(text, self.at, end)) is not None:
            self.out.append(text[self.at : newline.start()] + self.place.newline)
            self.at = newline.end()
            if self.region.inside_string(newline.start()):
                continue
            blanks = _BLANKS.match(text, self.at)
            assert blanks is not None
            self.at = min(blanks.end(), end)
            if text[blanks.end() : blanks.end() + 1] not in ("", "\n", "\r"):
                self.indent = self.place.indent + self._steps(blanks.group())
                self.out.append(self.indent)
        self.out.append(text[self.at : end])
        self.at = end

    def _steps(self, blanks: str) -> str:
        """Indentation in the template's own steps, in those of the file."""
        unit = self.region.indent
        count = 0
        while blanks.startswith(unit):
            blanks = blanks.removeprefix(unit)
            count += 1
        return self.place.step * count + blanks


def _bound_text(
    nodes: Nodes, hole: cst.CSTNode, template: Pattern, region: Region, place: Place, indent: str
) -> str:
    """The original text of bound nodes, its lines moved to the indentation of the line that it comes to
    stand on."""
    if isinstance(nodes[0], _STATEMENTS):
        start, end, margin = _statement_span(nodes, region, place)
    else:
        start, end = region.code_span(nodes[0])[0], region.code_span(nodes[-1])[1]
        whole = _brackets(nodes, region)
        if whole is not None and _brackets((hole,), template.region) is not None:
            start, end = whole
        margin = region.indent_at(start)
    text = reindent(region, start, end, margin, indent)
    only = nodes[0]
    if len(nodes) == 1 and isinstance(only, cst.BaseExpression) and not only.lpar:
        return _parenthesized(text, only, hole, template)
    return text


def _brackets(nodes: Nodes, region: Region) -> Span | None:
    """All that stands between the parentheses of a call or a header, when that is what the nodes are: a run
    that is moved from one pair of parentheses into another keeps its line breaks and comments."""
    parent = region.parents.get(nodes[0])
    if isinstance(parent, cst.Parameters) and isinstance(
        around := region.parents.get(parent), cst.FunctionDef
    ):
        everything, before = parameters(parent), around.whitespace_before_params
    elif isinstance(parent, cst.Call):
        everything, before = tuple(parent.args), parent.whitespace_before_args
    else:
        return None
    if everything != nodes:
        return None
    return region.outer(before)[0], region.outer(nodes[-1])[1]


def _parenthesized(text: str, node: cst.BaseExpression, hole: cst.CSTNode, template: Pattern) -> str:
    """Put parentheses around an expression where its new neighbours or line ends would tear it apart."""
    around = template.region.parents.get(hole) if isinstance(hole, cst.BaseExpression) else hole
    torn = is_torn(node, around)
    if not torn and NEWLINE.search(text):
        try:
            torn = len(cst.parse_module(text).body) != 1
        except cst.ParserSyntaxError:
            torn = True
    return f"({text})" if torn else text


def _statement_span(nodes: Nodes, region: Region, place: Place) -> tuple[int, int, str]:
    """Where bound statements begin and end, with the comments above and behind them as far as the match
    reaches."""
    lines = [_line(region, node) for node in (nodes[0], nodes[-1])]
    begin = region.statement_start(nodes[0])
    start, end = begin, region.inner(nodes[-1])[1]
    comment = region.text.find("#", region.outer(lines[0])[0], region.statement_start(lines[0]))
    if place.start <= comment < begin:
        start = comment
    below = region.outer(lines[1])[1]
    if below <= place.end:
        end = start + len(region.text[start:below].rstrip())
    return start, end, region.indent_at(begin)


def _line(region: Region, node: cst.CSTNode) -> cst.CSTNode:
    parent = region.parents[node]
    return parent if isinstance(parent, cst.SimpleStatementLine) else node


def reindent(region: Region, start: int, end: int, margin: str, indent: str) -> str:
    """The text between two offsets, the indentation `margin` of its further lines replaced by `indent`."""
    text = region.text
    if margin == indent:
        return text[start:end]
    out = []
    at = start
    while (newline := NEWLINE.search(text, at, end)) is not None:
        out.append(text[at : newline.end()])
        at = newline.end()
        if not region.inside_string(newline.start()) and text.startswith(margin, at, end):
            rest = text[at + len(margin) : at + len(margin) + 1]
            if rest not in ("", "\r", "\n"):
                out.append(indent)
                at += len(margin)
    out.append(text[at:end])
    return "".join(out)
