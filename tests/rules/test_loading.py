"""Finding specs by name, path or hub id; ordering rules by what they need."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.errors import RuleError, SpecError, UsageError
from vlmopt.folders import rules_folder, runtime_folder, specs_folder
from vlmopt.rules import Rule, check_ids, in_order, load_rules, with_needs
from vlmopt.specs import Spec, list_specs, load_spec

SPEC = """\
name: {name}
title: A model
architecture: AModel
hub: [{hub}]
model:
  module: vllm/a.py
  class: A
  processor_module: vllm/a.py
  processor_class: AProcessor
  pixel_field: pixels
images: {{geometry: unknown}}
"""


def _rule(name: str, needs: list[str] | None = None) -> Rule:
    edit = {"file": "vllm/a.py", "match": "x", "replace": "y"}
    return Rule.model_validate(
        {"id": name, "title": "T", "why": "W.", "contract": "exact", "needs": needs or [], "edits": [edit]}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.yaml").write_text(SPEC.format(name="small", hub="Org/Small-1B, Org/Small-2B"))
    (tmp_path / "tiny.yaml").write_text(SPEC.format(name="tiny", hub="Org/Tiny"))
    return tmp_path


def test_a_spec_answers_to_its_name_its_path_and_its_hub_ids(folder: Path) -> None:
    found = [load_spec(model, folder).name for model in ("small", "Org/Small-1B", "org/small-2b")]
    assert found == ["small"] * 3
    assert load_spec(str(folder / "tiny.yaml"), folder / "nowhere").name == "tiny"
    assert [spec.name for spec in list_specs(folder)] == ["small", "tiny"]


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("smal", "did you mean small?"),
        ("Org/Smal-1B", "Org/Small-1B?"),
        ("../x", "models list"),
        ("", "list"),
    ],
)
def test_an_unknown_model_is_answered_with_the_nearest(folder: Path, model: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no model spec answers to") as e:
        load_spec(model, folder)
    assert hint in str(e.value)


def test_a_name_cannot_reach_out_of_the_folder(folder: Path) -> None:
    inside = folder / "specs"
    inside.mkdir()
    with pytest.raises(UsageError):
        load_spec("../small", inside)


def test_two_specs_cannot_claim_one_hub_id(folder: Path) -> None:
    (folder / "tiny.yaml").write_text(SPEC.format(name="tiny", hub="org/SMALL-1b"))
    with pytest.raises(SpecError, match=r"tiny\.yaml:4: org/SMALL-1b is already claimed by .*small\.yaml:4"):
        list_specs(folder)


def test_a_spec_is_named_as_its_file(folder: Path) -> None:
    (folder / "tiny.yaml").rename(folder / "other.yaml")
    with pytest.raises(SpecError, match=r"other\.yaml:1: name is 'tiny', but the file is other\.yaml"):
        list_specs(folder)


def test_facts_are_the_data_under_the_yaml_keys(folder: Path) -> None:
    facts = load_spec("tiny", folder).facts()
    assert facts["model"] == {
        "module": "vllm/a.py",
        "class": "A",
        "processor_module": "vllm/a.py",
        "processor_class": "AProcessor",
        "pixel_field": "pixels",
    }
    assert "placeholder" not in facts
    assert Spec.model_validate(facts).facts() == facts


def test_hashes_follow_the_content(folder: Path) -> None:
    small, tiny = list_specs(folder)
    assert small.sha256 != tiny.sha256
    again = Spec.model_validate(small.facts())
    assert again.path is None
    assert again.sha256 == Spec.model_validate(small.facts()).sha256


def test_an_empty_rules_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no rule"):
        load_rules(tmp_path)


@given(data=st.data())
def test_rules_come_after_what_they_need(data: Any) -> None:
    names = data.draw(st.lists(st.from_regex(r"[a-f]{1,3}", fullmatch=True), unique=True, max_size=8))
    rules = [
        _rule(name, data.draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else [])
        for i, name in enumerate(names)
    ]
    ordered = in_order(data.draw(st.permutations(rules)))
    assert ordered == in_order(rules)
    position = {rule.id: i for i, rule in enumerate(ordered)}
    assert sorted(position) == sorted(names)
    assert all(position[need] < position[rule.id] for rule in rules for need in rule.needs)
    wanted = with_needs(names[-1:], rules)
    assert wanted >= set(names[-1:])
    assert all(set(rule.needs) <= wanted for rule in rules if rule.id in wanted)
    assert wanted == set(names[-1:]).union(*(with_needs(r.needs, rules) for r in rules[-1:]))


def test_rules_without_needs_come_by_id() -> None:
    assert [r.id for r in in_order([_rule("c", ["b"]), _rule("b"), _rule("a", ["c"]), _rule("d")])] == [
        "b",
        "c",
        "a",
        "d",
    ]


def test_order_mistakes() -> None:
    with pytest.raises(RuleError, match="rule a: needs 'bb', did you mean 'b'"):
        in_order([_rule("a", ["bb"]), _rule("b")])
    with pytest.raises(RuleError, match="need each other: a, b"):
        in_order([_rule("a", ["b"]), _rule("b", ["a"]), _rule("c")])
    with pytest.raises(RuleError, match="given twice"):
        in_order([_rule("a"), _rule("a")])
    with pytest.raises(UsageError, match="there is no recipe 'resize-devise', did you mean 'resize-device'"):
        check_ids(["resize-devise"], [_rule("resize-device")])
    with pytest.raises(UsageError, match="no recipe 'zzz', see `vlmopt rules list`"):
        with_needs(["zzz"], [_rule("resize-device")])


def test_the_wheel_s_copy_comes_before_a_folder_beside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "vlmopt"
    package.mkdir(parents=True)
    monkeypatch.setattr("vlmopt.folders._PACKAGE", package)
    assert rules_folder() == tmp_path / "site-packages" / "rules"
    for name in ("rules", "model_specs"):
        (package / "_data" / name).mkdir(parents=True)
    assert rules_folder() == package / "_data" / "rules"
    assert specs_folder() == package / "_data" / "model_specs"
    assert runtime_folder() == package / "runtime"
