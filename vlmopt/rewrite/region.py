"""A parsed stretch of a text, with the character offsets of every node.

libcst's own position metadata counts lines and columns or bytes, and takes longer than the parse. One pass
of its code generator with a counter gives character offsets at a fraction of that, and proves on the way
that the text is reproduced exactly.
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from types import TracebackType
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from vlmopt.rewrite.nodes import Definition, children

NEWLINE = re.compile(r"\r\n|\r|\n")
_STRINGS = tuple(
    getattr(cst, name)
    for name in ("SimpleString", "FormattedString", "TemplatedString")
    if hasattr(cst, name)
)
Span = tuple[int, int]


class _Syntactic:
    """Records where the code of a node, without the layout that the node owns, begins and ends."""

    __slots__ = ("end", "node", "start", "state", "where")

    def __init__(self, state: _OffsetState, node: cst.CSTNode, start: object, end: object) -> None:
        self.state, self.node, self.start, self.end = state, node, start, end

    def __enter__(self) -> None:
        self.where = self.state.offset

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # an interrupt: its nodes have no places yet
            return
        inner, outer = self.state.inner, self.state.outer
        start, end = self.where, self.state.offset
        if self.start is not None:
            start = (inner.get(self.start) or outer[self.start])[0]
        if self.end is not None:
            end = (inner.get(self.end) or outer[self.end])[1]
        inner[self.node] = (start, end)


class _OffsetState(CodegenState):
    """A code generator that notes offsets: `outer` with a node's own layout, `inner` without."""

    def __init__(self, module: cst.Module, base: int) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.offset = base
        self.inner: dict[object, Span] = {}
        self.outer: dict[object, Span] = {}
        self.stack: list[int] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.stack.append(self.offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.outer[node] = (self.stack.pop(), self.offset)

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Any:
        return _Syntactic(self, node, start_node, end_node)


class Region:
    """`text[start:end]` parsed; all offsets are those of the whole `text`.

    Raises libcst.ParserSyntaxError when it is not Python, ValueError when libcst would not reproduce it
    exactly.
    """

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        end = len(text) if end is None else end
        self.text = text
        if text.startswith("\ufeff", start):
            start += 1
        self.start, self.end = start, end
        source = text[start:end]
        self.module = cst.parse_module(source)
        state = _OffsetState(self.module, start)
        self.module._codegen(state)
        if "".join(state.tokens) != source:
            raise ValueError("libcst does not reproduce this text exactly")
        self._inner, self._outer = state.inner, state.outer
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.by_type: dict[type[cst.CSTNode], list[cst.CSTNode]] = defaultdict(list)
        self._walk(self.module)
        spans = (self._outer[node] for kind in _STRINGS for node in self.by_type.get(kind, ()))
        self._long_strings = sorted(span for span in spans if NEWLINE.search(text, *span))

    def _walk(self, root: cst.CSTNode) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            self.by_type[type(node)].append(node)
            below = children(node)
            for child in below:
                self.parents[child] = node
            stack.extend(reversed(below))

    @property
    def indent(self) -> str:
        """One step of indentation as this text has it."""
        return self.module.default_indent

    def outer(self, node: cst.CSTNode) -> Span:
        """Offsets of a node with the parentheses, comments and line ends that belong to it."""
        start, end = self._outer[node]
        return start, min(end, self.end)

    def inner(self, node: cst.CSTNode) -> Span:
        """Offsets of the code of a node alone: without parentheses around it, decorators, a comma after
        it."""
        if isinstance(node, cst.Param):
            start = self._inner[node][0]
            last = node.default or node.annotation or node.name
            return start, self._outer[last][1]
        span = self._inner.get(node)
        if span is not None:
            return span
        start, end = self._outer[node]
        code = self.text[start:end].rstrip().removesuffix(",")
        return start, start + len(code.rstrip())

    def code_span(self, node: cst.CSTNode) -> Span:
        """Offsets of a node as it would be copied: parentheses around an expression included."""
        return self.outer(node) if isinstance(node, cst.BaseExpression) else self.inner(node)

    def code(self, node: cst.CSTNode) -> str:
        """The text of `code_span`."""
        start, end = self.code_span(node)
        return self.text[start:end]

    def statement_start(self, node: cst.CSTNode) -> int:
        """Where a statement begins, decorators included."""
        if isinstance(node, Definition) and node.decorators:
            return self.inner(node.decorators[0])[0]
        return self.inner(node)[0]

    def inside_string(self, offset: int) -> bool:
        """Whether an offset lies inside a string that spans lines."""
        index = bisect.bisect_right(self._long_strings, (offset, self.end + 1)) - 1
        return index >= 0 and self._long_strings[index][0] < offset < self._long_strings[index][1]

    def line_start(self, offset: int) -> int:
        """The offset at which the line of `offset` begins."""
        return max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1

    def indent_at(self, offset: int) -> str:
        """The blanks that the line of `offset` begins with."""
        start = self.line_start(offset)
        match = re.compile(r"[ \t\f]*").match(self.text, start)
        return match.group() if match else ""

    def newline_at(self, offset: int) -> str:
        """The line end in use around an offset."""
        match = NEWLINE.search(self.text, offset) or NEWLINE.search(self.text)
        return match.group() if match else "\n"

    def ancestors(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The nodes around a node, innermost first."""
        chain = []
        while (parent := self.parents.get(node)) is not None:
            chain.append(parent)
            node = parent
        return chain
