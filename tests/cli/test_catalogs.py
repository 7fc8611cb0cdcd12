"""rules and models: lists, pages, JSON, drafts, and one clear line for what is wrong."""

import json
from pathlib import Path

import pytest
import yaml

from vlmopt.rules import load_rules
from vlmopt.specs import Spec, list_specs

from .command import vlmopt


def test_lists() -> None:
    rules = json.loads(vlmopt("rules", "list", "--json").out)["recipes"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in load_rules()]
    assert all(list(rule) == ["id", "title", "contract", "needs"] for rule in rules)
    models = json.loads(vlmopt("models", "list", "--json").out)["models"]
    assert [model["name"] for model in models] == [spec.name for spec in list_specs()]
    assert all(list(model) == ["name", "title", "architecture", "geometry", "hub"] for model in models)
    words = {line.split()[0] for line in vlmopt("rules", "list").out.splitlines()}
    assert words == {"recipe", *(rule["id"] for rule in rules)}


def test_show(spec: Spec) -> None:
    rule = load_rules()[0]
    page = vlmopt("rules", "show", rule.id)
    assert page.code == 0
    assert page.out.startswith(f"{rule.id}: {rule.title}\n")
    assert rule.why.strip() in page.out
    said = json.loads(vlmopt("rules", "show", rule.id, "--json").out)
    assert (said["id"], said["sha256"]) == (rule.id, rule.sha256)
    said = json.loads(vlmopt("models", "show", spec.hub[0], "--json").out)
    assert said["name"] == spec.name
    assert said["model"]["class"] == spec.model.class_
    lines = vlmopt("models", "show", spec.name).out.splitlines()
    assert ["model.class", spec.model.class_] in [line.split() for line in lines]


RULE = """\
id: add-log
title: Logs
why: To see.
contract: exact
edits:
  - file: vllm/a.py
    match: run()
    after: log()
examples:
  - before: |
      run()
    after: |
      run()
      {logged}
"""


@pytest.mark.parametrize(("logged", "code"), [("log()", 0), ("lag()", 2)])
def test_check_of_a_rule_file(logged: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "add-log.yaml"
    path.write_text(RULE.format(logged=logged))
    done = vlmopt("rules", "check", path, "--json")
    assert done.code == code
    said = json.loads(done.out)
    assert said["checked"] == ["add-log"]
    assert len(said["problems"]) == (code != 0)
    assert (f"{path}:10: example 1: comes out other than `after` says" in done.err) == (code != 0)


def test_what_is_wrong_is_one_line_with_a_hint(tmp_path: Path) -> None:
    rule, spec = load_rules()[0].id, list_specs()[0].name
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: x\ntitle: [\n")
    cases = {
        ("rules", "show", rule[:-1]): f"did you mean '{rule}'",
        ("rules", "check", "nope.yaml"): "nope.yaml",
        ("models", "show", spec[:-1]): f"did you mean {spec}",
        ("models", "show", str(broken)): "broken.yaml:3: ",
        ("apply", "--model", str(broken)): "broken.yaml:3: ",
        ("apply", "--model", spec, "--vllm", "no/such/place"): "no/such/place",
    }
    for words, hint in cases.items():
        done = vlmopt(*words, cwd=tmp_path)
        assert (done.code, done.out) == (2, ""), words
        assert hint in done.err
        assert done.err.startswith("vlmopt: ")
        assert done.err.count("\n") == 1


@pytest.mark.engine
def test_infer(spec: Spec) -> None:
    done = vlmopt("models", "infer", spec.architecture)
    assert done.code == 0
    assert yaml.safe_load(done.out)["model"]["class"] == spec.model.class_
    assert "# fill in:" in done.out
    assert done.err.startswith("To fill in or look at:\n")
    said = json.loads(vlmopt("models", "infer", spec.architecture, "--json").out)
    assert list(said) == ["vllm", "spec", "fill_in", "fields", "targets", "hf_processor", "yaml"]
    assert said["yaml"] == done.out
    done = vlmopt("models", "infer", spec.architecture[:-1])
    assert done.code == 2
    assert f"did you mean {spec.architecture}?" in done.err


def test_completion_knows_models_and_recipes(spec: Spec) -> None:
    def complete(*words: str) -> list[str]:
        line = ["vlmopt", *words]
        done = vlmopt(
            _VLMOPT_COMPLETE="complete_bash", COMP_WORDS=" ".join(line), COMP_CWORD=str(len(line) - 1)
        )
        return done.out.split()

    assert spec.name in complete("apply", "--model", spec.name[:3])
    assert complete("rules", "show", "batched") == ["batched-h2d"]
    assert "batched-h2d,pinned-h2d" in complete("apply", "--recipes", "batched-h2d,pinned")
    assert "approximate" in complete("apply", "--allow", "app")
