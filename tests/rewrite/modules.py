"""A hypothesis strategy for Python modules as people write them: odd blanks, comments, nesting, all line
ends."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "größe", "old", "value", "self.x", "numpy.zeros"])
BLANK = st.sampled_from(["", " ", "  "])
COMMENT = st.sampled_from(["", "", "", "  # why", "# ünïcode 😀 old(1)", " # trailing  "])
# Strings that look like code; nothing in them may ever be matched or moved.
STRINGS = st.sampled_from(
    [
        "'old(1)'",
        '"x"',
        "b'\\x00'",
        "f'{a!r:>{b}} {old(2)}'",
        '"""one line old(3)"""',
        '"""\n  old(4)\nclass A:\n\tdef f(): pass\n"""',
        "r'''\n    keep\n\n\tthis  \n'''",
        "('a' \"b\"\n  'c')",
    ]
)


@dataclass(frozen=True)
class Style:
    """How a module is laid out."""

    unit: str
    newline: str
    ends: bool


STYLES = st.builds(
    Style,
    unit=st.sampled_from(["    ", "  ", "\t", "   "]),
    newline=st.sampled_from(["\n", "\r\n"]),
    ends=st.booleans(),
)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    """An expression, now and then over several lines inside brackets."""
    if depth == 0:
        return draw(st.one_of(NAMES, STRINGS, st.sampled_from(["1", "0x_ff", "None", "...", "(yield)"])))
    below = expressions(depth - 1)
    kind = draw(st.integers(0, 9))
    blank = draw(BLANK)
    one, two = draw(below), draw(below)
    if kind <= 2:
        name = draw(st.sampled_from(["old", "old", "call", "a.old"]))
        inside = draw(
            st.sampled_from(
                [
                    f"{one}",
                    f"{one},{blank}{two}",
                    f"\n  {one},  # first\n        {two},\n",
                    f"*{one}, k={blank}{two}",
                    f"{one},{blank}",
                    "",
                ]
            )
        )
        return f"{name}{draw(BLANK)}({inside})"
    return {
        3: f"{one}{blank}+ {two}",
        4: f"({blank}{one}{blank})",
        5: f"[{one},\n {two}]",
        6: f"{{{one}: {two},{blank}}}",
        7: f"({one} if {two} else {one})",
        8: f"[q for q in {one} if ({two})]",
        9: f"(not {one} and\n{two})",
    }[kind]


def _simple(draw: st.DrawFn) -> str:
    one = draw(expressions())
    return draw(
        st.sampled_from(
            [
                one,
                f"value = {one}",
                f"value: int{draw(BLANK)}= {one}",
                f"a = b = {one}",
                "pass",
                f"del {draw(NAMES)}; a = 1",
                f"a = 1 + \\\n  {draw(NAMES)}",
                "import numpy as np",
                f"assert {one}, 'msg'",
                f"a += ({one})",
            ]
        )
    )


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> list[str]:
    """The lines of a block, each logical line one item; `>` opens and `<` closes a level."""
    out: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            out.append(draw(st.sampled_from(["", "# a comment: old(5)", "#"])))
        kind = draw(st.integers(0, 9 if depth else 3))
        if kind <= 3:
            out.append(_simple(draw) + draw(COMMENT))
            continue
        header = draw(
            st.sampled_from(
                [
                    "if old(a):",
                    "for a in old(b):",
                    "with old(a) as b, c:",
                    "def f(self, a: int = 1, *, b=old(2), **kw) -> int:",
                    "async def g(a, /, b):",
                    "class A(Base, metaclass=Meta):",
                    "class B:",
                    "try:",
                    "while (a\n   ):",
                ]
            )
        )
        if header.startswith(("def", "class", "async")):
            out.extend(draw(st.lists(st.sampled_from(["@old", "@deco(1,\n  2)  # d"]), max_size=2)))
        if draw(st.integers(0, 4)) == 0 and header != "try:":
            out.append(header + draw(st.sampled_from([" pass", " a; b", "  value = old( 1 )  # t"])))
            continue
        out.extend([header + draw(COMMENT), ">", *draw(blocks(depth - 1)), "<"])
        if header == "try:":
            out.extend(["finally:", ">", *draw(blocks(depth - 1)), "<"])
        elif header.startswith("if") and draw(st.booleans()):
            out.extend(["elif a:" if draw(st.booleans()) else "else:", ">", *draw(blocks(depth - 1)), "<"])
    return out


@st.composite
def modules(draw: st.DrawFn) -> str:
    """The text of a module."""
    style = draw(STYLES)
    lines = [
        *draw(st.sampled_from([[], ["#!/usr/bin/env python"], ["# é"], ['"""Doc."""'], ["", "# c", ""]])),
        *draw(st.sampled_from([[], ["from __future__ import annotations", "import os"]])),
        *draw(blocks()),
    ]
    level = 0
    out = []
    for line in lines:
        if line in "<>" and line:
            level += 1 if line == ">" else -1
            continue
        out.append(style.unit * level + line if line else draw(st.sampled_from(["", "", style.unit * level])))
    text = "\n".join(out) + ("\n" if style.ends else "")
    return text.replace("\n", style.newline)
