"""What each action writes, and how it is laid out."""

from __future__ import annotations

import pytest

from tests.rewrite.helpers import apply, code, edit
from vlmopt.rewrite import Edit, Outcome, PatternError, check

SOURCE = code(
    '''
    """Doc."""
    import os


    @register(1)
    class A(Base):
        """Doc of A."""

        size: int = 1  # one

        # About f.
        @cached
        def f(self, a, *, b=2) -> int:
            """Doc of f."""
            y = call(
                a,  # the first
                k=[1, 2],
            )
            # About the test.
            if y: return y  # early
            for i in range(3):
                # inside

                y += i
            return y


    class B: pass
    '''
)


def changed(one: Edit, text: str = SOURCE) -> str:
    """The lines that an edit adds, as `+`, and takes away, as `-`."""
    out, (result,) = apply(text, one)
    assert result.outcome is Outcome.hit, result
    compile(out, "out", "exec")
    old, new = text.split("\n"), out.split("\n")
    head = next(i for i in range(len(new)) if i >= len(old) or old[i] != new[i])
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    return "\n".join([f"{head + 1}:", *("-" + line for line in gone), *("+" + line for line in come), ""])


CASES = [
    (
        edit("replace", "call($...a)", "other($...a)"),
        """
        15:
        -        y = call(
        +        y = other(
        """,
    ),
    (
        edit("replace", "call($x, $...rest)", "call(\n    wrap($x),\n    $...rest,\n)"),
        """
        16:
        -            a,  # the first
        +            wrap(a),
        """,
    ),
    (
        edit("replace", "k=$v", "k=tuple($v)"),
        """
        17:
        -            k=[1, 2],
        +            k=tuple([1, 2]),
        """,
    ),
    (
        edit(
            "replace",
            "for $i in $it:\n    $...body",
            "with x:\n    for $i in $it:\n        $...body\n    done()",
        ),
        """
        21:
        -        for i in range(3):
        -            # inside
        -
        -            y += i
        +        with x:
        +            for i in range(3):
        +                # inside
        +
        +                y += i
        +            done()
        """,
    ),
    (
        edit("replace", "@cached", "@fresh\n@cached(None)"),
        """
        12:
        -    @cached
        +    @fresh
        +    @cached(None)
        """,
    ),
    (
        edit("before", "@cached", "@fresh"),
        """
        12:
        +    @fresh
        """,
    ),
    (
        edit("after", "@cached", "@fresh"),
        """
        13:
        +    @fresh
        """,
    ),
    (
        edit("before", "if y: return y", "log(\n    1\n)"),
        """
        19:
        +        log(
        +            1
        +        )
        """,
    ),
    (
        edit("before", "range($n)", "n = $n"),
        """
        21:
        +        n = 3
        """,
    ),
    (
        edit("before", "def f($...p): $...b", "def g(self):\n    pass"),
        """
        11:
        +    def g(self):
        +        pass
        +
        """,
    ),
    (
        edit("after", "class A: $...b", "class C:\n    pass"),
        """
        28:
        +class C:
        +    pass
        +
        +
        """,
    ),
    (
        edit("body_start", None, "log(1)", "class A > def f"),
        """
        15:
        +        log(1)
        """,
    ),
    (
        edit("body_end", None, "log(1)", "class A > def f"),
        """
        26:
        +        log(1)
        """,
    ),
    (
        edit("body_start", None, "x = 1", "class B"),
        """
        28:
        -class B: pass
        +class B:
        +    x = 1
        +    pass
        """,
    ),
    (
        edit("attribute", None, "mode = 'a'", "class A"),
        """
        10:
        +    mode = 'a'
        """,
    ),
    (
        edit("method", None, "@property\ndef g(self):\n    return 1", "class A"),
        """
        27:
        +    @property
        +    def g(self):
        +        return 1
        +
        """,
    ),
    (
        edit("base", None, "Mixin", "class A"),
        """
        6:
        -class A(Base):
        +class A(Base, Mixin):
        """,
    ),
    (
        edit("base", "class B: $...b", "a.Mixin"),
        """
        28:
        -class B: pass
        +class B(a.Mixin): pass
        """,
    ),
    (
        edit("body_start", None, "import sys"),
        """
        2:
        +import sys
        """,
    ),
    (
        edit("body_end", None, "done()"),
        """
        29:
        +done()
        """,
    ),
]


@pytest.mark.parametrize(("one", "expected"), CASES)
def test_action(one: Edit, expected: str) -> None:
    assert changed(one) == code(expected)


def test_one_line_suites_become_blocks_and_keep_their_comments() -> None:
    out, (result,) = apply(SOURCE, edit("before", "return y", "log(1)", times=(2, 2)))
    assert result.found == 2
    assert "        if y:\n            log(1)\n            return y  # early\n" in out
    assert "            y += i\n        log(1)\n        return y\n" in out
    out, _ = apply(SOURCE, edit("after", "return y", "log(1)", times=(2, 2)))
    assert "        if y:\n            return y  # early\n            log(1)\n" in out
    out, _ = apply("if a: b()\n", edit("replace", "b()", "c()\nd()"))
    assert out == "if a:\n    c()\n    d()\n"
    out, _ = apply("if a: b()  # c\n", edit("replace", "b()", "c()"))
    assert out == "if a: c()  # c\n"


@pytest.mark.parametrize(
    ("text", "match", "template", "expected"),
    [
        ("y = f(a + b)", "f($x)", "$x * 2", "y = (a + b) * 2"),
        ("y = f(a.b)", "f($x)", "$x * 2", "y = a.b * 2"),
        ("y = f((a, b))", "f($x)", "g($x)", "y = g((a, b))"),
        ("y = f(a) * 2", "f($x)", "$x + c", "y = (a + c) * 2"),
        ("y = f(a).b", "f($x)", "await $x", "y = (await a).b"),
        ("y = (f(a))", "f($x)", "$x + c", "y = (a + c)"),
        ("y = f(1)", "f($x)", "$x.real", "y = (1).real"),
        ("y = f(x for x in z)", "f($x)", "g($x, 1)", "y = g((x for x in z), 1)"),
        ("y = f(a\n + b)", "y = f($x)", "y = $x", "y = (a\n + b)"),
        ("y = f(a(\n1))", "y = f($x)", "y = $x", "y = a(\n1)"),
        ("return_(f(lambda: 1))", "f($x)", "g($x)", "return_(g(lambda: 1))"),
        ("y = a, b", "y = $x", "y = f($x)", "y = f((a, b))"),
        ("f(k=1)", "f($x)", "g($x)", "g(k=1)"),
        ("f(*a, **b)", "f($...x)", "g(1, $...x)", "g(1, *a, **b)"),
        ("f()", "f($...x)", "g(1, $...x)", "g(1)"),
        ("f()", "f($...x)", "g($...x, 1)", "g(1)"),
        ("f()", "f($...x)", "g($...x)", "g()"),
        ("f()", "f($...x)", "g(\n    1,\n    $...x,\n    2,\n)", "g(\n    1,\n    2,\n)"),
        ("d = {'a': 1, **k}", "{'a': $v, $...r}", "{$...r, 'b': $v}", "d = {**k, 'b': 1}"),
        ("d = {'a': 1, 'b': 2}", "'a': $v", "'a': f($v),", "d = {'a': f(1), 'b': 2}"),
        ("a\nb\n", "a\n$...x\nb", "if c:\n    $...x", "if c:\n    pass\n"),
        ("a\nb\n", "a\n$...x\nb", "c\n$...x\nd", "c\nd\n"),
        ("a\n# one\nx  # two\n# three\nb\n", "a\n$...x\nb", "c\n$...x", "c\n# one\nx  # two\n"),
        (
            "def f(a, b): pass",
            "def f($...p): $...b",
            "def f(self, $...p):\n    $...b",
            "def f(self, a, b):\n    pass",
        ),
        ("from a import (b, c)", "from a import $...n", "from d import $...n", "from d import b, c"),
    ],
)
def test_bound_code_is_filled_in(text: str, match: str, template: str, expected: str) -> None:
    out, (result,) = apply(text, edit("replace", match, template))
    assert result.outcome is Outcome.hit
    assert out == expected


def test_the_layout_of_the_file_is_kept() -> None:
    text = "class A:\r\n\tdef f(self):\r\n\t\treturn '😀', old(1)  \r\n\r\n\tx = 1\t# é\r\n"
    out, _ = apply(
        text, edit("replace", "old($x)", "new(\n    $x,\n)"), edit("body_start", None, "a(\n  1)", "def f")
    )
    assert out == text.replace("old(1)", "new(\r\n\t\t\t1,\r\n\t\t)")
    out, _ = apply(text, edit("body_start", None, "if a:\n    b(\n      1)", "class A > def f"))
    assert out == text.replace("\t\treturn", "\t\tif a:\r\n\t\t\tb(\r\n\t\t\t  1)\r\n\t\treturn")
    assert apply(text.replace("\t", "  "), edit("method", None, "def g(self):\n    pass", "class A"))[
        0
    ].endswith("  # é\r\n\r\n  def g(self):\r\n    pass\r\n")


def test_a_text_without_a_last_line_end_is_extended() -> None:
    assert apply("def f():\n    a", edit("body_end", None, "b", "def f"))[0] == "def f():\n    a\n    b"
    assert apply("a", edit("after", "a", "b"))[0] == "a\nb"
    assert apply("", edit("body_end", None, "b"))[0] == "b\n"
    assert apply("# only\n", edit("body_start", None, "b"))[0] == "# only\nb\n"


def test_a_byte_order_mark_stays_in_front() -> None:
    out, (result,) = apply("\ufeffa = 1\n", edit("replace", "a = $x", "b = $x", imports=["import c"]))
    assert (out, result.found) == ("\ufeffimport c\nb = 1\n", 1)


def test_the_inside_of_strings_is_never_indented() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    out, _ = apply(text, edit("body_start", None, 'x = """\na\n  b\n"""\ny(\n    1)', "class A > def f"))
    assert out == text.replace(
        "        return", '        x = """\na\n  b\n"""\n        y(\n            1)\n        return'
    )


def test_a_block_that_moves_keeps_its_strings_and_each_comment_once() -> None:
    text = 'for a in b:  # why\n    # first\n    x = """\n    keep\n  this"""\n    y  # last\n# after\n'
    one = edit("replace", "for $i in $x: $...body", "with c:\n    for $i in $x:\n        $...body")
    assert apply(text, one)[0] == (
        'with c:\n    for a in b:\n        # first\n        x = """\n    keep\n  this"""\n'
        "        y  # last\n# after\n"
    )


def test_nested_matches_are_written_inner_lines_first() -> None:
    text = "class A:\n    class B:\n        x\n"
    out, _ = apply(text, edit("body_end", "class $C: $...b", "done = '$C'", times=(2, 2)))
    assert out == text + "        done = '$C'\n    done = '$C'\n"


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (edit("replace", "f($x)", "g($y)"), r"\$y stands in the code to write"),
        (edit("replace", "f($_)", "g($_)"), r"\$_ stands in the code to write"),
        (edit("replace", None, "g()", "class A"), "replace: a pattern to match is needed"),
        (edit("replace", "f($x)", "g("), "line 1 of the code to write: this is not"),
        (edit("replace", "x=$y", "a; $y"), "of the code to write"),
        (edit("method", "f($x)", "def g(): pass"), "method: the pattern must be"),
        (edit("attribute", "def f(): $...b", "a = 1"), "attribute: the pattern must be a class"),
        (edit("base", None, "A"), "base: a class is needed"),
        (edit("replace", "f(1)", "g", imports=["x = 1"]), "imports: 'x = 1' is not one import"),
        (edit("replace", "f(1)", "g", times=(2, 1)), "times: 2 to 1"),
        (edit("replace", "f(1)", "g", "class"), "within: "),
    ],
)
def test_a_malformed_edit_is_named(one: Edit, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        check(one)
