"""`${...}` is filled from facts and nothing else."""

import ast
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.errors import RuleError
from vlmopt.substitute import Variables, literal, variables_in

FACTS = {
    "model": {"class": "A", "module": "vllm/a.py"},
    "images": {"geometry": "fixed", "sizes": [1, 2]},
    "flag": True,
}

_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True)
_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=30,
)


def test_a_text_stands_for_itself_and_the_rest_is_a_literal() -> None:
    variables = Variables(FACTS, "spec a")
    filled = variables.fill("class ${model.class}: x = ${images}; y = ${flag}; $z, $...w, $${no}", "r.yaml:1")
    assert filled == ('class A: x = {"geometry": "fixed", "sizes": [1, 2]}; y = True; $z, $...w, ${no}')


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            "${model.clas}",
            "r.yaml:7: unknown variable ${model.clas}: spec a does not give it; did you mean ${model.class}?",
        ),
        ("${model.class.name}", "unknown variable ${model.class.name}"),
        ("${zzz}", "unknown variable ${zzz}: spec a does not give it"),
        ("${}", "malformed variable '${}'"),
        ("${model.class", "malformed variable '${model.class'"),
        ("${model class}", "malformed variable"),
        ("${__import__('os')}", "malformed variable"),
        ("${model.${x}}", "malformed variable '${model.$'"),
    ],
)
def test_unknown_and_malformed(template: str, says: str) -> None:
    with pytest.raises(RuleError) as e:
        Variables(FACTS, "spec a").fill(template, "r.yaml:7")
    assert str(e.value).startswith("r.yaml:7: ")
    assert says in str(e.value)


@given(value=_values, column=st.integers(0, 100))
def test_a_literal_reads_back_as_its_value(value: Any, column: int) -> None:
    text = literal(value, column)
    assert ast.literal_eval(text) == value
    assert repr(ast.literal_eval(text)) == repr(value)  # True is not 1, -0.0 not 0.0; the order of keys too


@given(value=_values, margin=st.sampled_from(["", "    ", "\t", "        "]))
def test_a_literal_keeps_the_margin_of_its_line(value: Any, margin: str) -> None:
    filled = Variables({"v": value if not isinstance(value, str) else [value]}, "x").fill(
        f"{margin}name = ${{v}}\n{margin}other = 1\n", "r.yaml:1"
    )
    tree = ast.parse(textwrap.dedent(filled))
    assert [type(node).__name__ for node in tree.body] == ["Assign", "Assign"]
    assert ast.literal_eval(tree.body[0].value) == (value if not isinstance(value, str) else [value])  # type: ignore[attr-defined]


@given(items=st.dictionaries(_names, st.integers(0, 10**6) | _names, max_size=30), column=st.integers(0, 60))
def test_a_literal_of_short_items_fits_the_line(items: dict[str, Any], column: int) -> None:
    first, *rest = literal(items, column).split("\n")
    assert len(first) <= 80 - column
    assert all(len(line) <= 80 for line in rest)


@pytest.mark.parametrize(("length", "wide"), [(65, 79), (66, 80), (67, 78)])
def test_lines_are_filled_to_the_width_and_no_further(length: int, wide: int) -> None:
    lines = literal({"a": 1, "b": ["y" * length]}, column=20).split("\n")
    assert max(map(len, lines)) == wide
    assert len(lines) == (4 if length <= 66 else 6)


@given(text=st.text().filter(lambda t: "${" not in t))
def test_text_without_variables_is_left_alone(text: str) -> None:
    assert Variables(FACTS, "x").fill(text, "r.yaml:1") == text
    assert variables_in(text) == []


@given(
    parts=st.lists(st.tuples(st.text().filter(lambda t: "$" not in t), _names, st.text()), max_size=5),
)
def test_values_are_not_filled_again(parts: list[tuple[str, str, str]]) -> None:
    facts = {name: value for _, name, value in parts}
    template = "".join(f"{text}${{{name}}}" for text, name, _ in parts)
    expected = "".join(text + facts[name] for text, name, _ in parts)
    assert Variables(facts, "x").fill(template, "r.yaml:1") == expected
    assert variables_in(template) == [name for _, name, _ in parts]


@given(path=st.lists(_names, min_size=1, max_size=4), value=st.integers())
def test_a_dotted_key_is_a_nested_fact(path: list[str], value: int) -> None:
    nested: Any = value
    for name in reversed(path):
        nested = {name: nested}
    variables = Variables({".".join(path): value}, "x")
    assert variables.facts == nested
    assert variables.value(".".join(path), "r.yaml:1") == value


def test_dotted_keys_and_sections_join_and_leave_the_caller_data_alone() -> None:
    given_facts = {"images": {"a": 1}, "images.b": 2, "images.a.c": 3}
    assert Variables(given_facts, "x").facts == {"images": {"a": {"c": 3}, "b": 2}}
    assert Variables({"images.b": 2, "images": {"a": 1}}, "x").facts == {"images": {"a": 1, "b": 2}}
    assert given_facts == {"images": {"a": 1}, "images.b": 2, "images.a.c": 3}
