"""The rules that ship: each carries its own examples, and each example comes out as written."""

import re
from pathlib import Path

import pytest

from vlmopt.errors import RuleError
from vlmopt.folders import rules_folder
from vlmopt.rulecheck import check_rule
from vlmopt.rules import load_rules, read_rule
from vlmopt.runtimefiles import fork_files, with_imports

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


def test_a_rule_that_undoes_itself_is_found(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("""\
id: r
title: R
why: W.
contract: exact
edits:
  - {file: vllm/a.py, match: a(), replace: b(), times: 1..2}
  - {file: vllm/a.py, match: b(), replace: a(), times: 1..2}
examples:
  - before: "x = a()\\ny = b()\\n"
    after: "x = b()\\ny = a()\\n"
""")
    (problem,) = check_rule(read_rule(path))
    assert problem.where == f"{path}:9"
    assert problem.text.startswith("example 1: a second run changes it again\n")


def test_a_runtime_file_brings_what_it_imports(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\nfrom .b import x\ndef f():\n    from . import c, d\n")
    (tmp_path / "b.py").write_text("from .e.f import z\nfrom vllm import g\n")
    for name in ("c.py", "d.py", "e.py", "g.py", "__init__.py"):
        (tmp_path / name).write_text("import os\n")
    (tmp_path / "costs.yaml").write_text("a: 1\n")
    names = with_imports(["costs.yaml", "a.py"], tmp_path)
    assert names == ["a.py", "b.py", "c.py", "costs.yaml", "d.py", "e.py"]
    files = fork_files(names, tmp_path)
    assert list(files) == [f"vllm/vlmopt_runtime/{name}" for name in ["__init__.py", *names]]
    assert files["vllm/vlmopt_runtime/costs.yaml"] == "a: 1\n"
    assert fork_files([], tmp_path) == {}
    (tmp_path / "e.py").unlink()
    with pytest.raises(RuleError, match=r"the runtime file .*e\.py cannot be read: No such file"):
        with_imports(["b.py"], tmp_path / ".." / tmp_path.name)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_a_rule_imports_it_brings(path: Path) -> None:
    rule = read_rule(path)
    imported = {
        f"{name}.py"
        for edit in rule.edits
        for line in edit.imports
        for name in re.findall(r"from vllm\.vlmopt_runtime(?:\.| import )(\w+)", line)
    }
    assert imported <= set(rule.runtime)
