"""Cut a file at its top-level statements, so that only the class or function in question needs a libcst
parse.

Python's own parser says where the statements stand; it takes a tenth of the time that libcst takes.
"""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from vlmopt.rewrite.region import NEWLINE


@dataclass(frozen=True)
class Chunk:
    """A stretch of whole lines: one class or function with the lines above it, or a run of other statements.

    `is_definition` says which; the chunks of a file follow each other without a gap. `members` are the whole
    lines of the functions in a class, from `def` or decorator on.
    """

    start: int
    end: int
    is_definition: bool
    members: tuple[tuple[int, int], ...] = ()


def outline(text: str) -> tuple[Chunk, ...]:
    """The chunks of a text; a single one when Python's parser does not know the syntax."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text.removeprefix("\ufeff")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (Chunk(0, len(text), False),)
    starts = [0, *(match.end() for match in NEWLINE.finditer(text))]
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    cuts: list[tuple[int, bool]] = []
    members: list[tuple[tuple[int, int], ...]] = []
    below = 0
    for is_definition, run in itertools.groupby(body, key=lambda node: isinstance(node, definitions)):
        nodes = list(run)
        for node in nodes if is_definition else nodes[:1]:
            cuts.append((below, is_definition))
            members.append(tuple(_lines_of_functions(node, starts, len(text))))
            below = node.end_lineno or node.lineno
        below = nodes[-1].end_lineno or below
    offsets = [starts[line] if line < len(starts) else len(text) for line, _ in cuts]
    if any(a >= b for a, b in itertools.pairwise(offsets)) or not cuts:
        # Two statements share a line.
        return (Chunk(0, len(text), False),)
    ends = [*offsets[1:], len(text)]
    return tuple(
        Chunk(start, end, is_definition, inside)
        for start, end, (_, is_definition), inside in zip(offsets, ends, cuts, members, strict=True)
    )


def _lines_of_functions(node: ast.AST, starts: list[int], end: int) -> Iterator[tuple[int, int]]:
    """Start and end of the lines of each function in a class that has its lines to itself."""
    if not isinstance(node, ast.ClassDef):
        return
    body = node.body
    for at, inner in enumerate(body):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([inner.lineno, *(decorator.lineno for decorator in inner.decorator_list)]) - 1
            last = inner.end_lineno or inner.lineno
            above = body[at - 1].end_lineno if at else node.lineno
            below = body[at + 1].lineno if at + 1 < len(body) else last + 1
            if (above or 0) <= first and last < below:
                yield starts[first], starts[last] if last < len(starts) else end


def syntax_error(text: str) -> tuple[int | None, str]:
    """Where and why Python's parser refuses a text; no line when it takes it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        return error.lineno, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return None, str(error)
    return None, "libcst does not read it"
