"""Splices of several owners on one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rewrite.helpers import edit
from vlmopt.rewrite import Conflict, Edit, Module, Splice, compose

TEXT = "import os\n\n\nclass A(B):\n    def f(self):\n        return f(g(1), 2)\n"


def composed(*edits: Edit, text: str = TEXT) -> str:
    module = Module(text)
    return compose(
        text, [(f"rule-{number}", module.find(one).splices) for number, one in enumerate(edits, 1)]
    )


def test_edits_of_one_text_are_applied_together() -> None:
    out = composed(
        edit("replace", "g($x)", "h($x)", imports=["import sys"]),
        edit("body_start", None, "check()", "class A > def f", imports=["import sys", "import re"]),
        edit("base", None, "Mixin", "class A"),
        edit("before", "return $x", "log()"),
    )
    assert out == (
        "import os\nimport sys\nimport re\n\n\nclass A(B, Mixin):\n    def f(self):\n        check()\n"
        "        log()\n        return f(h(1), 2)\n"
    )


@pytest.mark.parametrize(
    "pair",
    [
        (edit("replace", "g($x)", "h($x)"), edit("replace", "f($...x)", "k($...x)")),
        (edit("replace", "f($...x)", "k($...x)"), edit("replace", "g($x)", "h($x)")),
        (edit("replace", "g($x)", "h($x)"), edit("replace", "g($x)", "h($x)")),
        (edit("replace", "def f($...p): $...b", "def f(): pass"), edit("before", "return $x", "log()")),
        (edit("before", "return $x", "log()"), edit("replace", "def f($...p): $...b", "def f(): pass")),
    ],
)
def test_two_owners_of_the_same_code_are_named(pair: tuple[Edit, Edit]) -> None:
    with pytest.raises(
        Conflict, match=r"rule-[12] \(edit 1\) and rule-[12] \(edit 1\) change the same code at line [56]"
    ) as e:
        composed(*pair)
    assert "rule-1" in str(e.value)
    assert "rule-2" in str(e.value)


def test_second_bases_of_a_class_without_any_are_a_conflict() -> None:
    pair = edit("base", None, "B", "class A"), edit("base", None, "C", "class A")
    with pytest.raises(Conflict):
        composed(*pair, text="class A: pass\n")
    with pytest.raises(Conflict):
        composed(*pair, text="class A(): pass\n")
    assert composed(*pair, text="class A(metaclass=M): pass\n") == "class A(B, C, metaclass=M): pass\n"
    assert composed(*pair, text="class A(Z,): pass\n") == "class A(Z, B, C,): pass\n"


def test_code_for_one_place_stands_in_the_order_of_its_owners() -> None:
    first, second = edit("body_end", None, "a()"), edit("body_end", None, "b()")
    assert composed(first, second, text="x\n") == "x\na()\nb()\n"
    assert composed(second, first, text="x") == "x\nb()\na()"


def test_lines_that_end_an_inner_block_stand_before_those_of_an_outer_one() -> None:
    outer, inner = edit("body_end", None, "a()", "class A"), edit("body_end", None, "b()", "class A > def f")
    assert composed(outer, inner) == TEXT + "        b()\n    a()\n"
    assert composed(inner, outer) == TEXT + "        b()\n    a()\n"


@given(st.text("ab\r\né😀", max_size=20), st.data())
def test_everything_outside_of_the_splices_survives(text: str, data: st.DataObject) -> None:
    points = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    spans = list(zip(points[::2], points[1::2], strict=False))
    splices = [Splice(a, b, f"<{number}>", "1", "code") for number, (a, b) in enumerate(spans)]
    out = compose(text, [("rule", splices[::-1])])
    kept = [
        text[a:b]
        for a, b in zip([0, *(b for _, b in spans)], [*(a for a, _ in spans), len(text)], strict=True)
    ]
    for number in range(len(spans)):
        out = out.replace(f"<{number}>", "")
    assert out == "".join(kept)
