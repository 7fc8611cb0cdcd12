"""Patterns: Python code with holes, compiled to libcst nodes.

`$name` is one node, `$...name` a run of arguments, elements, parameters, imported names or statements, `$_`
and `$..._` the same without a name. A pattern is tried as an expression, as statements, as arguments, as
decorators and as the entries of a dict, in this order. `name=value` without blanks around the `=` is a
keyword argument, with blanks it is an assignment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import libcst as cst

from vlmopt.rewrite.errors import PatternError
from vlmopt.rewrite.nodes import statements
from vlmopt.rewrite.region import NEWLINE, Region

_TOKEN = re.compile(
    r"""
      (?P<string>[rRbBuUfFtT]{0,3}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}
                    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    | (?P<comment>\#[^\r\n]*)
    | \$(?P<run>\.\.\.)?(?P<name>[A-Za-z_]\w*)
    | (?P<dollar>\$)
    | (?P<word>\w+)
    | (?P<open>[([{]) | (?P<close>[)\]}])
    | (?P<operator>[=!<>:+\-*/%@&|^]=+|:=|->|\*\*)
    | (?P<blank>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ONE, _RUN = "_vhole_one_", "_vhole_run_"
# Names that stand everywhere.
_PLAIN = frozenset({"None", "True", "False", "self", "cls"})
_HOLE = re.compile(rf"(?:{_ONE}|{_RUN})\w+")


class Kind(StrEnum):
    """What a pattern is a piece of."""

    expression = "an expression"
    statements = "statements"
    arguments = "arguments"
    decorators = "decorators"
    entries = "entries of a dict"


@dataclass(frozen=True)
class Hole:
    """A `$name` (or, with `run`, a `$...name`); `name` is None for `$_`."""

    name: str | None
    run: bool

    def __str__(self) -> str:
        return f"${'...' if self.run else ''}{self.name or '_'}"


@dataclass(frozen=True, eq=False)
class Pattern:
    """A compiled pattern.

    `text` is the dedented pattern with holes written as names; it stands in `region` from offset `offset` on.
    `nodes` are its top nodes; `holes` finds the hole that a node stands for; `words` are the identifiers
    that any text with a match contains.
    """

    source: str
    kind: Kind
    text: str
    offset: int
    region: Region
    nodes: tuple[cst.CSTNode, ...]
    holes: dict[cst.CSTNode, Hole]
    words: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The names of its holes."""
        return frozenset(hole.name for hole in self.holes.values() if hole.name is not None)

    @property
    def is_specific(self) -> bool:
        """Whether it says more than structure: only then does a match prove that this very code stands
        there."""
        return bool(self.words - _PLAIN) or any(
            len(node.value) > 4
            for node in self.region.by_type.get(cst.SimpleString, ())
            if isinstance(node, cst.SimpleString)
        )

    def occurs_in(self, text: str) -> bool:
        """Whether a text holds every identifier of the pattern; without that it has no match."""
        return all(word in text for word in self.words)


# How a pattern of each kind is made a module: the text before, the text after.
_WRAPPERS = {
    Kind.expression: ("(", "\n)"),
    Kind.statements: ("", "\n"),
    Kind.arguments: ("f(", "\n)"),
    Kind.decorators: ("", "\ndef f(): pass"),
    Kind.entries: ("{", "\n}"),
}


def dedent(code: str) -> str:
    """Remove the indentation that all lines share, blank lines and strings over several lines apart."""
    code = NEWLINE.sub("\n", code).strip("\n")
    inside = string_lines(code)
    lines = code.rstrip().split("\n")
    indents = [
        len(line) - len(line.lstrip(" \t"))
        for number, line in enumerate(lines)
        if line.strip() and number not in inside
    ]
    shared = min(indents, default=0)
    return "\n".join(line if n in inside else line[shared:] for n, line in enumerate(lines))


def string_lines(code: str) -> set[int]:
    """The numbers (0-based) of the lines that begin inside a string."""
    inside: set[int] = set()
    for token in _TOKEN.finditer(code):
        if token.lastgroup == "string" and "\n" in token.group():
            first = code.count("\n", 0, token.start())
            inside.update(range(first + 1, first + 1 + token.group().count("\n")))
    return inside


def _encode(code: str) -> str:
    """Write the holes as names that Python can parse where they stand."""
    tokens = [token for token in _TOKEN.finditer(code) if token.lastgroup not in ("comment", "blank")]
    pairs = _dict_brackets(tokens)
    out: list[str] = []
    done = 0
    after_keyword = [False]
    is_dict = [False]
    for index, token in enumerate(tokens):
        previous = tokens[index - 1].group() if index else ""
        following = tokens[index + 1].group() if index + 1 < len(tokens) else ""
        if token.lastgroup == "open":
            after_keyword.append(False)
            is_dict.append(index in pairs)
        elif token.lastgroup == "close" and len(is_dict) > 1:
            after_keyword.pop()
            is_dict.pop()
        elif token.group() in ("=", "**"):
            after_keyword[-1] = True
        elif token.lastgroup == "dollar":
            line = code.count("\n", 0, token.start()) + 1
            raise PatternError(
                f"line {line} of the pattern: '$' without a name after it: {_line(code, line)}"
            )
        elif token["name"] is not None:
            name = (_RUN if token["run"] else _ONE) + token["name"]
            alone = previous in ("", "(", ",", "{", "[") and following in ("", ",", ")", "}", "]")
            if alone and token["run"] and is_dict[-1]:
                name = "**" + name
            elif alone and after_keyword[-1] and len(is_dict) > 1:
                name = f"{name}={name}"
            out.append(code[done : token.start()] + name)
            done = token.end()
    return "".join(out) + code[done:]


def _dict_brackets(tokens: list[re.Match[str]]) -> set[int]:
    """The indices of the `{` tokens that open a dict, as a `:` directly inside shows."""
    found: set[int] = set()
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if token.lastgroup == "open":
            stack.append(index)
        elif token.lastgroup == "close" and stack:
            stack.pop()
        elif token.group() == ":" and stack and tokens[stack[-1]].group() == "{":
            found.add(stack[-1])
    return found


def _line(code: str, number: int) -> str:
    lines = code.split("\n")
    return lines[min(number, len(lines)) - 1].strip()


def _parse(kind: Kind, text: str) -> tuple[Region, tuple[cst.CSTNode, ...]] | None:
    """The nodes of a text read as one kind; None when it is not of that kind. Raises ParserSyntaxError."""
    before, after = _WRAPPERS[kind]
    region = Region(before + text + after)
    body = statements(region.module)
    first = body[0] if body else None
    if kind is Kind.statements:
        return (region, body) if body else None
    if kind is Kind.decorators:
        assert isinstance(first, cst.FunctionDef)
        return (region, tuple(first.decorators)) if len(body) == 1 and first.decorators else None
    if len(body) != 1 or not isinstance(first, cst.Expr):
        return None
    value = first.value
    if kind is Kind.expression:
        return region, (value,)
    if kind is Kind.arguments and isinstance(value, cst.Call):
        return region, tuple(value.args)
    if kind is Kind.entries and isinstance(value, cst.Dict):
        return region, tuple(value.elements)
    return None


def _is_keyword(nodes: tuple[cst.CSTNode, ...]) -> bool:
    """Whether statements are one `name=value` without blanks around the `=`."""
    if len(nodes) != 1 or not isinstance(nodes[0], cst.Assign) or len(nodes[0].targets) != 1:
        return False
    target = nodes[0].targets[0]
    blanks = (target.whitespace_before_equal, target.whitespace_after_equal)
    return isinstance(target.target, cst.Name) and not any(
        isinstance(blank, cst.SimpleWhitespace) and blank.value for blank in blanks
    )


@lru_cache(maxsize=4096)
def compile_pattern(source: str, kinds: tuple[Kind, ...] = tuple(Kind)) -> Pattern:
    """Compile a pattern as the first of `kinds` that it can be read as.

    Raises PatternError, with the line inside the pattern, when it is empty, malformed or would match
    anything.
    """
    code = dedent(source)
    if not code.strip():
        raise PatternError("line 1 of the pattern: it is empty")
    text = _encode(code)
    failure: cst.ParserSyntaxError | None = None
    for kind in kinds:
        try:
            parsed = _parse(kind, text)
        except cst.ParserSyntaxError as error:
            if failure is None or kind is Kind.statements:
                failure = error
            continue
        if parsed is None:
            continue
        region, nodes = parsed
        if kind is Kind.statements and Kind.arguments in kinds and _is_keyword(nodes):
            continue
        holes = _find_holes(region, kind)
        words = frozenset(
            node.value
            for node in region.by_type.get(cst.Name, ())
            if isinstance(node, cst.Name) and not _HOLE.fullmatch(node.value) and node.value in code
        )
        return Pattern(source, kind, text, len(_WRAPPERS[kind][0]), region, nodes, holes, words)
    wanted = " or ".join(kinds)
    if failure is None:
        raise PatternError(f"line 1 of the pattern: this is not {wanted}: {_line(code, 1)}")
    line = min(failure.raw_line, code.count("\n") + 1)
    raise PatternError(f"line {line} of the pattern: this is not {wanted}: {_line(code, line)}")


def compile_match(source: str) -> Pattern:
    """Compile a pattern that is searched for. Raises PatternError, also when it would match anything."""
    pattern = compile_pattern(source)
    first, last = pattern.holes.get(pattern.nodes[0]), pattern.holes.get(pattern.nodes[-1])
    if len(pattern.nodes) == 1 and first is not None:
        raise PatternError(f"line 1 of the pattern: {first} alone matches anything")
    for hole in (first, last):
        if hole is not None and hole.run:
            raise PatternError(
                f"line 1 of the pattern: it cannot begin or end with {hole}, which has no bounds there"
            )
    return pattern


def _hole(node: cst.CSTNode | None) -> Hole | None:
    """The hole that a name stands for."""
    if not isinstance(node, cst.Name):
        return None
    for prefix in (_ONE, _RUN):
        if node.value.startswith(prefix):
            name = node.value.removeprefix(prefix)
            return Hole(None if name == "_" else name, prefix == _RUN)
    return None


def _find_holes(region: Region, kind: Kind) -> dict[cst.CSTNode, Hole]:
    """The holes of a pattern, by the outermost node that is nothing but the hole."""
    holes: dict[cst.CSTNode, Hole] = {}
    for node in region.by_type.get(cst.Name, ()):
        hole = _hole(node)
        if hole is None or node in holes:
            continue
        whole: cst.CSTNode = node
        while (parent := region.parents.get(whole)) is not None and _is_bare(parent, hole):
            if isinstance(parent, cst.Expr) and kind is not Kind.statements:
                break
            whole = parent
        if hole.run and isinstance(whole, cst.Name):
            line = region.text.count("\n", 0, region.inner(node)[0]) + 1
            raise PatternError(f"line {line} of the pattern: {hole} cannot stand here, it is a run of nodes")
        holes[whole] = hole
    return holes


def _is_bare(node: cst.CSTNode, hole: Hole) -> bool:
    """Whether a node is a wrapper of nothing but a hole."""
    if isinstance(node, cst.Arg):
        return (
            not node.star
            and _hole(node.value) == hole
            and (node.keyword is None or _hole(node.keyword) == hole)
        )
    if isinstance(node, cst.Param):
        same = node.default is None or _hole(node.default) == hole
        return not node.star and node.annotation is None and _hole(node.name) == hole and same
    if isinstance(node, cst.Element | cst.Expr | cst.Index):
        return _hole(node.value) == hole
    if isinstance(node, cst.StarredDictElement):
        return hole.run
    if isinstance(node, cst.ImportAlias):
        return node.asname is None
    if isinstance(node, cst.SubscriptElement):
        return isinstance(node.slice, cst.Index) and _hole(node.slice.value) == hole
    return False


def spell(text: str) -> str:
    """The text of a pattern with its holes as they were written."""
    text = re.sub(rf"\*\*{_RUN}(\w+)", r"$...\1", text)
    text = re.sub(rf"(?:{_RUN}\w+=)?{_RUN}(\w+)", r"$...\1", text)
    return re.sub(rf"({_ONE}\w+)(?:=\1)?", lambda match: "$" + match[1].removeprefix(_ONE), text)
