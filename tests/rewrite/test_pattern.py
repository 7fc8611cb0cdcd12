"""What patterns match, and what is wrong with those that cannot be compiled."""

from __future__ import annotations

import pytest

from tests.rewrite.helpers import code
from vlmopt.rewrite import Module, PatternError, Probe
from vlmopt.rewrite.pattern import Kind, compile_match, spell


def count(text: str, match: str, within: str | None = None, **where: str) -> int:
    return Module(text).probe(Probe(match, within, where))


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("f($x)", Kind.expression),
        ("a, b", Kind.expression),
        ("x = $y", Kind.statements),
        ("x=$y", Kind.arguments),
        ("$key=Call($...a)", Kind.arguments),
        ("$key=Call(\n    1,\n),", Kind.arguments),
        ("a=1, b=$b", Kind.arguments),
        ("*args, **$kwargs", Kind.arguments),
        ("return $x", Kind.statements),
        ("if $c:\n    $...body", Kind.statements),
        ("def f($...p): $...body", Kind.statements),
        ("@property", Kind.decorators),
        ("@a\n@b($...x)", Kind.decorators),
        ('"key": $v', Kind.entries),
        ("import a.b", Kind.statements),
        ("x: int = 1", Kind.statements),
    ],
)
def test_the_kind_of_a_pattern_is_told_from_its_text(pattern: str, kind: Kind) -> None:
    assert compile_match(pattern).kind is kind


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("f($x)", "f(1)"),
        ("f($x)", "f(\n  1,  # one\n)"),
        ("f($x)", "f(k=1)"),
        ("f(($x))", "(f)(1)"),
        ("f('a')", 'f("a")'),
        ("f('a\\n')", 'f("""a\n""")'),
        ("f(r'\\d')", "f('\\\\d')"),
        ("f(f'{a}')", 'f(F"{ a }")'),
        ("f($...a, k=$v, $...b)", "f(1, 2, k=3)"),
        ("f($...a, k=$v, $...b)", "f(k=3, l=4, **m)"),
        ("f($...a, $x, $...a, $x)", "f(1, 2, 1, 2)"),
        ("f($...a, $x, $...b) + g($x)", "f(1, 2, 3) + g(2)"),
        ("$x + $x", "a.b + a . b"),
        ("$_ + $_", "a + b"),
        ("[$...a, 3, $...b]", "[1, *c, 3]"),
        ("{'a': $v, $...rest}", "{'a': 1, 'b': 2, **c}"),
        ("{$...rest, 'a': $v}", "{'a': 1}"),
        ("a[$i]", "a[1]"),
        ("lambda $...p: $x", "lambda a, b=1, *c: d"),
        ("x = $y", "x=(yield)"),
        ("x = $y\n$...rest\nreturn x", "x = 1\nif x:\n    pass\nreturn x"),
        ("if $c: return $x", "if (a):\n    # why\n    return 1"),
        ("if $c:\n    $...body", "if a: b; c"),
        ("def f($...p): $...body", "@a\n@b\ndef f(self, *, a: int = 1) -> int:\n    '''doc'''\n    return 1"),
        ("def f($p, k=$d, $...rest): $...body", "def f(self, k=1, *a, **kw): pass"),
        ("def $name($...p): return $x", "def f(): return 1"),
        ("async def f(): $...body", "async def f(): pass"),
        ("class A: $...body", "class A(B, metaclass=C): pass"),
        ("class A($...b): $...body", "class A: pass"),
        ("class A($...b, metaclass=$m): $...body", "class A(B, metaclass=C): pass"),
        ("@deco($...a)\ndef f(): $...b", "@deco(1)\ndef f(): pass"),
        ("from a import $...names", "from a import (b, c as d,)"),
        ("from ..a import b", "from .. a import b"),
        ("with $x as $y: $...b", "with (f() as g): pass"),
        ("try:\n    $...a\nexcept E:\n    $...b", "try: x\nexcept E: y"),
        ("größe($x)", "größe('é')"),
        ("for $i in $x: $...b", "for a, b in c: pass"),
        ("f('$x', $y)", "f('$x', 1)"),
    ],
)
def test_matches(pattern: str, text: str) -> None:
    assert count(text, pattern) == 1


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("f($x)", "f()"),
        ("f($x)", "f(1, 2)"),
        ("f($x)", "'f(1)'  # f(2)"),
        ("f($x)", "a.f(1)"),
        ("f('a')", "f(b'a')"),
        ("f('a')", "f(f'a')"),
        ("$x + $x", "a + b"),
        ("f($...a) + g($...a)", "f(1, 2) + g(1)"),
        ("x=$y", "x = 1"),
        ("x = $y", "f(x=1)"),
        ("name", "a.name; f(name=1)\ndef name(name): pass\nimport name\nfrom name import name"),
        ("a[$i]", "a[1:2]"),
        ("a < b", "a <= b"),
        ("not $x", "-x"),
        ("def f(): $...body", "async def f(): pass"),
        ("def f($x): $...body", "def f(a, b): pass"),
        ("def f(x): $...body", "def f(x: int): pass"),
        ("def f() -> int: $...body", "def f(): pass"),
        ("class A(): $...body", "class A(B): pass"),
        ("@deco\ndef f(): $...b", "def f(): pass"),
        ("x = 1\ny = 2", "x = 1\nz = 0\ny = 2"),
        ("import os", "import os; import sys"),
        ("from a import b", "from .a import b"),
        ("if $c: $...b", "if a: b\nelse: c"),
        ("return $x", "return"),
    ],
)
def test_does_not_match(pattern: str, text: str) -> None:
    assert count(text, pattern) == 0


def test_every_match_counts_once() -> None:
    text = "f(1)\nif f(2): f(f(3))\nclass A:\n    x = f(4)\n"
    assert count(text, "f($x)") == 5
    assert count(text, "f($x)", "class A") == 1


def test_scopes_go_through_blocks_but_not_through_definitions() -> None:
    text = code(
        """
        class A:
            if x:
                async def f(self):
                    def g():
                        go(1)
                    go(2)
            def f(self):
                go(3)
        def f():
            go(4)
        class AB(A):
            def f(self): go(5)
        """
    )
    expected = {
        "class A > def f": 3,
        "class A > def f > def g": 1,
        "def f": 1,
        "def g": 0,
        "class A* > def f": 4,
        "class * > def *": 4,
        "class A": 3,
        "class B": 0,
    }
    assert {within: count(text, "go($x)", within) for within in expected} == expected


def test_where_compares_code_or_searches_a_regex() -> None:
    text = "f(a=g('image', 1), b=g('image', 2), c=g('video', x.y))"
    assert count(text, "$k=g($m, $n)") == 3
    assert count(text, "$k=g($m, $n)", k="b") == 1
    assert count(text, "$k=g($m, $n)", m='"image"') == 2
    assert count(text, "$k=g($m, $n)", k="/^[ac]$/", m="/vid/") == 1
    assert count(text, "$k=g($m, $n)", n="x . y") == 1


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "line 1 of the pattern: it is empty"),
        ("f($)", r"line 1 of the pattern: '\$' without a name"),
        ("x = 1\ny = (\n", "line [23] of the pattern: this is not"),
        ("x = 1\ny z\n", "line 2 of the pattern: this is not .*: y z"),
        ("$x", r"\$x alone matches anything"),
        ("$...xs", r"\$\.\.\.xs cannot stand here"),
        ("x = 1\n$...rest", r"cannot begin or end with \$\.\.\.rest"),
        ("a.$...xs", r"\$\.\.\.xs cannot stand here"),
        ("else:", "this is not"),
    ],
)
def test_a_malformed_pattern_is_named_with_its_line(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        compile_match(pattern)


@pytest.mark.parametrize("within", ["A", "class A def f", "class A >", "def f()", "class"])
def test_a_malformed_scope_is_named(within: str) -> None:
    with pytest.raises(PatternError, match="within: "):
        count("x", "x", within)


def test_a_constraint_on_nothing_is_named() -> None:
    with pytest.raises(PatternError, match=r"the pattern binds no \$y"):
        count("f(1)", "f($x)", y="1")
    with pytest.raises(PatternError, match="not a regular expression"):
        count("f(1)", "f($x)", x="/(/")


@pytest.mark.parametrize("pattern", ["f($...a, k=$v, $...b, $c)", "{'a': 1, $...r}", "def f(k=1, $x): $...b"])
def test_a_pattern_is_spelled_as_it_was_written(pattern: str) -> None:
    assert spell(compile_match(pattern).text) == pattern
