"""The rules that ship: each carries its own examples, and each example comes out as written."""

from pathlib import Path

import pytest

from vlmopt.folders import rules_folder
from vlmopt.rulecheck import check_rule
from vlmopt.rules import load_rules, read_rule

PATHS = sorted(rules_folder().glob("*.yaml"))


def test_the_rules_load_together() -> None:
    assert len(load_rules()) == len(PATHS) > 0


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    assert "\n".join(map(str, check_rule(read_rule(path)))) == ""


GOOD = """\
id: r
title: R
why: W.
contract: exact
edits:
  - file: ${model.module}
    within: class ${model.class}
    match: x = $v
    where: {v: /\\d/}
    replace: y = $v
  - file: vllm/b.py
    match: $a.old()
    replace: $a.new()
    times: 1..2
examples:
  - edit: 1
    with: {model.class: A}
    before: |
      class A:
          x = 1  # one
    after: |
      class A:
          y = 1  # one
  - edit: 2
    before: |
      p.old(); q.old()
    after: |
      p.new(); q.new()
  - with: {model.class: A}
    untouched: |
      x = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("          y = 1", "          y = 2", 16, "example 1: comes out other than `after` says"),
        ("          y = 1", "          y = 2", 16, "-    y = 2  # one\n+    y = 1  # one"),
        ("          x = 1  #", "          x = a  #", 16, "example 1: edit 1: expected 1 matches, found 0"),
        ("p.old(); q", "p.old(); q.old(); q", 24, "example 2: edit 2: expected 1 to 2 matches, found 3"),
        ("    replace: y = $v", "    replace: x = $v + 1", 16, "example 1: "),
        (
            "    untouched: |\n      x = 1",
            "    untouched: |\n      p.old()",
            29,
            "edit 2 must leave it alone",
        ),
        ("  - edit: 1\n    with: {model.class: A}", "  - edit: 1", 7, "unknown variable ${model.class}"),
        (
            "  - edit: 2\n    before",
            "  - edit: 1\n    with: {model.class: A}\n    before",
            11,
            "edit 2 has no",
        ),
        ("    match: x = $v", "    match: x = = $v", 16, "example 1: "),
        ("      p.old(); q", "      p.old() q", 24, "example 2: "),
    ],
)
def test_the_check_finds_what_is_wrong(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(GOOD)
    assert check_rule(read_rule(path)) == []
    assert GOOD.count(old) == 1
    path.write_text(GOOD.replace(old, new))
    problems = [str(problem) for problem in check_rule(read_rule(path))]
    assert any(says in problem and f"r.yaml:{line}: " in problem for problem in problems), problems


def test_a_second_run_that_changes_its_own_result_is_found(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    text = GOOD.replace("replace: y = $v", "replace: x = $v + 1").replace("    y = 1 ", "    x = 1 + 1 ")
    path.write_text(text)
    problems = [problem.text for problem in check_rule(read_rule(path))]
    assert len(problems) == 1
    assert "a second run changes it again" in problems[0]


def test_a_runtime_file_brings_what_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (runtime / "a.py").write_text("import os\nfrom .b import x\ndef f():\n    from . import c, d\n")
    for name in "bcd":
        (runtime / f"{name}.py").write_text("")
    monkeypatch.setattr("vlmopt.rules.runtime_folder", lambda: runtime)
    monkeypatch.setattr("vlmopt.rulecheck.runtime_folder", lambda: runtime)
    path = tmp_path / "r.yaml"
    path.write_text(GOOD.replace("examples:", "runtime: [c.py, a.py]\nexamples:"))
    problems = [str(problem) for problem in check_rule(read_rule(path))]
    assert problems == [
        f"{path}:15: a.py imports b.py; list it too",
        f"{path}:15: a.py imports d.py; list it too",
    ]
