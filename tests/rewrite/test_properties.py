"""Properties that hold for any module; Python's own `ast` is the oracle."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.rewrite.helpers import apply, edit
from tests.rewrite.modules import modules
from vlmopt.rewrite import Conflict, Edit, Module, Outcome, compose
from vlmopt.rewrite.outline import outline
from vlmopt.rewrite.pattern import compile_match
from vlmopt.rewrite.region import Region
from vlmopt.rewrite.search import find

MANY = (1, 10_000)
examples = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def dump(tree: ast.AST | str) -> str:
    """A module without positions; newlines in strings are `\\n` as Python reads them."""
    return ast.dump(ast.parse(tree) if isinstance(tree, str) else tree)


def comments(text: str) -> Counter[str]:
    """The comments of a module, however often each occurs."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)


class Rename(ast.NodeTransformer):
    """Calls of `new` made calls of `old` again."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "new":
            node.func.id = "old"
        return node


class Drop(ast.NodeTransformer):
    """A module without what the insertions of these tests add; counts what it removes."""

    def __init__(self) -> None:
        self.count = 0

    def _drop(self, node: ast.AST) -> None:
        self.count += 1

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if ast.unparse(node) == "added(1)":
            return self._drop(node)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return self._drop(node) if ast.unparse(node.target) == "added" else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        return self._drop(node) if node.name == "added" else self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id == "Added":
                self.count += 1
        node.bases = [b for b in node.bases if not (isinstance(b, ast.Name) and b.id == "Added")]
        return self.generic_visit(node)


class Unwrap(ast.NodeTransformer):
    """A module with `with` statements of some kind replaced by their body."""

    def __init__(self, is_wanted: Callable[[ast.With], bool]) -> None:
        self.is_wanted = is_wanted

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if self.is_wanted(node) else node


INSERTIONS = [
    edit("before", "value = $x", "added(1)", times=MANY),
    edit("after", "value = $x", "added(1)  # new", times=MANY),
    edit("after", "a += $x", "added(1)", times=MANY),
    edit("before", "old($...a)", "added(\n    1\n)", times=MANY),
    edit("before", "def f($...p): $...b", "added(1)", times=MANY),
    edit("after", "class A($...bases): $...b", "added(1)", times=MANY),
    edit("body_start", "def f($...p): $...b", "added(1)", times=MANY),
    edit("body_end", "def f($...p): $...b", "added(1)", times=MANY),
    edit("body_start", "if $c: $...b", "added(1)", times=MANY),
    edit("body_start", "class A($...bases): $...b", "added(1)", times=MANY),
    edit("body_end", "class B: $...b", "added(1)", times=MANY),
    edit("body_start", None, "added(1)"),
    edit("body_end", None, "added(1)"),
    edit("attribute", "class A($...bases): $...b", "added: int = 1", times=MANY),
    edit("attribute", None, "added: int = 1", "class B", times=MANY),
    edit("method", "class B: $...b", "def added(self):\n    return [\n        1\n    ]", times=MANY),
    edit("method", None, "def added(self): pass", "class A", times=MANY),
    edit("base", "class $C($...bases): $...b", "Added", times=MANY),
    edit("base", None, "Added", "class B", times=MANY),
]
REPLACEMENTS = [
    edit("replace", "old($...a)", "new($...a)", times=MANY),
    edit("replace", "value = $x", "value = wrap($x)", times=MANY),
    edit("replace", "k=$v", "k=frozen($v)", times=MANY),
    edit("replace", "@old", "@fresh(1)", times=MANY),
    edit("replace", "with $x as b, c: $...body", "with other($x):\n    before(1)\n    $...body", times=MANY),
]


@examples
@given(modules())
def test_a_region_reproduces_its_text_and_every_name_stands_where_it_says(text: str) -> None:
    region = Region(text)
    for kind, nodes in region.by_type.items():
        for node in nodes:
            start, end = region.inner(node)
            assert region.outer(node)[0] <= start <= end <= len(text)
            if kind.__name__ == "Name":
                assert text[start:end] == node.value  # type: ignore[attr-defined]
            if kind.__name__ in ("Call", "BinaryOperation", "SimpleString", "List", "IfExp"):
                ast.parse(f"({text[start:end]}\n)")


@examples
@given(modules())
def test_the_chunks_of_a_module_follow_each_other_and_parse_alone(text: str) -> None:
    chunks = outline(text)
    assert "".join(text[chunk.start : chunk.end] for chunk in chunks) == text
    assert dump(
        ast.Module([node for c in chunks for node in ast.parse(text[c.start : c.end]).body], [])
    ) == dump(text)


@examples
@given(
    modules(),
    st.sampled_from(["old($...a)", "value = $x", "k=$v", "@old", "class B: $...b", "$x.old", "{$k: $v}"]),
)
def test_searching_chunks_finds_what_searching_the_whole_file_finds(text: str, pattern: str) -> None:
    compiled = compile_match(pattern)
    whole = Region(text)
    parts = [Region(text, chunk.start, chunk.end) for chunk in outline(text)]
    expected = [(match.start, match.end) for match in find(compiled, whole, whole.module, {})]
    assert [(m.start, m.end) for part in parts for m in find(compiled, part, part.module, {})] == expected


@examples
@given(modules())
def test_a_replaced_call_changes_nothing_else(text: str) -> None:
    calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "old"]
    out, (result,) = apply(text, REPLACEMENTS[0])
    if result.outcome is Outcome.hit:
        assert result.found == len(calls) > 0
        assert dump(Rename().visit(ast.parse(out))) == dump(text)
        assert comments(out) == comments(text)
    elif calls:
        assert result.candidate is not None
        assert result.candidate.difference == "it overlaps another match"


@examples
@given(modules())
@example("if old(a):\n\told(a)\n\twhile (a\n   ):  value = old( 1 )  # t")
def test_an_insertion_adds_its_code_and_nothing_else(text: str) -> None:
    module, before = Module(text), dump(text)
    for one in INSERTIONS:
        result = module.find(one)
        out = compose(text, [("rule", result.splices)])
        drop = Drop()
        assert dump(drop.visit(ast.parse(out))) == before
        assert drop.count == len(result.splices)
        assert bool(result.splices) == (result.outcome is Outcome.hit)
        added = Counter({"# new": drop.count} if "# new" in one.shapes[0].code and drop.count else {})
        assert comments(out) == comments(text) + added


@examples
@given(modules())
def test_applying_an_edit_twice_changes_nothing(text: str) -> None:
    module = Module(text)
    for one in [*INSERTIONS, *REPLACEMENTS]:
        first = module.find(one)
        if first.outcome is not Outcome.hit:
            continue
        out = compose(text, [("rule", first.splices)])
        second = Module(out).find(one)
        assert (second.outcome, second.splices) == (Outcome.present, ()), (one, out)
        assert second.found == first.found


@examples
@given(modules(), st.lists(st.sampled_from(INSERTIONS), min_size=2, max_size=4, unique_by=id))
def test_several_insertions_leave_each_other_in_place(text: str, edits: list[Edit]) -> None:
    try:
        out, _ = apply(text, *edits)
    except Conflict:
        return
    assert dump(Drop().visit(ast.parse(out))) == dump(text)


@examples
@given(modules())
def test_a_block_that_moves_a_level_in_keeps_its_strings(text: str) -> None:
    code = "with moved:\n    for $v in $it:\n        $...body"
    out, _ = apply(text, edit("replace", "for $v in $it: $...body", code, times=MANY))
    unwrap = Unwrap(lambda node: ast.unparse(node.items[0]) == "moved")
    assert dump(unwrap.visit(ast.parse(out))) == dump(text)


@examples
@given(modules())
def test_a_block_that_moves_a_level_out_keeps_its_strings(text: str) -> None:
    out, (result,) = apply(text, edit("replace", "with $x as b, c: $...body", "$...body", times=MANY))
    unwrap = Unwrap(lambda node: result.outcome is Outcome.hit and len(node.items) == 2)
    assert dump(out) == dump(unwrap.visit(ast.parse(text)))


@pytest.mark.parametrize(
    "one", [one for one in [*INSERTIONS, *REPLACEMENTS] if one.within or one.shapes[0].match]
)
def test_a_module_without_the_anchor_is_left_alone(one: Edit) -> None:
    result = Module("x = 'old(1)'  # old(2)\n").find(one)
    assert result.outcome is Outcome.drift
    assert result.splices == ()
