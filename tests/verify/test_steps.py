"""A fork cut off after each rule: the texts are the series', and bisection names the right one."""

import os

import pytest

from tests.fork.cases import make_plan_of, make_rules, make_stock
from vlmopt.fork import write_fork
from vlmopt.fork.series import read_patch
from vlmopt.verify.steps import changed_since_apply, first_breaking_step


@pytest.fixture
def fork(tmp_path):
    plan = make_plan_of(make_stock(tmp_path / "site-packages"), make_rules(tmp_path / "rules"))
    return write_fork(plan, tmp_path / "fork", "report\n")


def edit(path, text):
    """Changes a file of a fork as a person would; a link becomes a file."""
    new = path.read_text("utf-8") + text
    path.unlink()
    path.write_text(new, "utf-8")


def touched(fork, rule):
    return {file.path for file in read_patch(fork.patches[rule]).files}


def test_a_fresh_fork_has_no_changes(fork):
    assert changed_since_apply(fork) == []


def test_changed_added_and_missing_files_are_seen(fork):
    own = next(path for path, entry in fork.lock.files.items() if entry["before"])
    edit(fork.path / own, "# changed\n")
    stocks = next(path for path in (fork.path / "vllm").rglob("*.py") if path.is_symlink())
    edit(stocks, "# changed\n")
    (fork.path / "vllm/new.py").write_text("")
    gone = next(path for path, entry in fork.lock.files.items() if not entry["before"])
    (fork.path / gone).unlink()
    expected = [own, stocks.relative_to(fork.path).as_posix(), "vllm/new.py", gone]
    assert changed_since_apply(fork) == sorted(expected)


def test_every_rule_is_named_when_the_breach_begins_with_it(fork):
    rules = list(fork.patches)
    assert len(rules) >= 3
    finals = {path: (fork.path / path).read_text("utf-8") for path in fork.lock.files}
    for wanted in rules:
        seen = []

        def breaks(folder, wanted=wanted, seen=seen):
            # The folder holds the rules up to some step: tell which by what is in it.
            has = [rule for rule in rules if all((folder / p).is_file() for p in touched(fork, rule))]
            last = read_patch(fork.patches[wanted]).files[-1]
            added = next(line.text for line in last.lines if line.mark == "added" and line.text.strip())
            seen.append(has)
            return added in (folder / last.path).read_text("utf-8").split("\n") if wanted in has else False

        assert first_breaking_step(fork, breaks).rule == wanted
        assert len(seen) <= 2
    assert {path: (fork.path / path).read_text("utf-8") for path in fork.lock.files} == finals


def test_a_step_is_a_whole_fork(fork):
    folders = []

    def look(folder):
        folders.append(
            {
                "links": os.path.islink(folder / "vllm/_C.abi3.so"),
                "guard": (folder / "vllm/__init__.py").read_text("utf-8"),
                "lock": (folder / "vlmopt.lock.json").is_file(),
                "metadata": len(list(folder.glob("vllm-*.dist-info/METADATA"))),
            }
        )
        return False

    first_breaking_step(fork, look)
    guard = (fork.path / "vllm/__init__.py").read_text("utf-8")
    assert folders
    assert all(each == {"links": True, "guard": guard, "lock": True, "metadata": 1} for each in folders)


def test_a_change_made_after_apply_is_named(fork):
    own = next(path for path in touched(fork, "normalize"))
    edit(fork.path / own, "# a change\n")
    step = first_breaking_step(fork, lambda folder: "# a change" in (folder / own).read_text("utf-8"))
    assert step.rule is None
    assert own in step.text


def test_a_changed_runtime_file_counts_for_the_rule_that_brings_it(fork):
    (new,) = (path for path in touched(fork, "fast-resize") if path.endswith("keys.py"))
    edit(fork.path / new, "# a change\n")

    def breaks(folder):
        return (folder / new).is_file() and "# a change" in (folder / new).read_text("utf-8")

    assert first_breaking_step(fork, breaks).rule == "fast-resize"
