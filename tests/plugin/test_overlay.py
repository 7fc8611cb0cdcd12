"""A fork with a plug-in: its overlay, its lock, what it checks, its patches, and how it runs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fork.cases import STOCK_FILES, assert_whole, make_plan_of, snapshot
from tests.plan.memory_tree import MemoryTree
from vlmopt.errors import SourceError, UsageError
from vlmopt.fork import Fork, installed_plugin, write_fork
from vlmopt.fork.launch import fork_environment
from vlmopt.fork.series import read_patch
from vlmopt.plan import Plan, make_plan
from vlmopt.report.markdown import report
from vlmopt.report.review import open_review
from vlmopt.report.story import story_of_fork, story_of_plan
from vlmopt.rules import load_rules
from vlmopt.runtime.guard import problem
from vlmopt.verify.steps import changed_since_apply, first_breaking_step

from .cases import DISTRIBUTION, FILES, MODEL, PACKAGE, SPEC, VERSION, install, plan_of


def test_the_package_is_overlaid_beside_vllm(plan: Plan, stock: Path, tmp_path: Path) -> None:
    before = snapshot(stock)
    fork = write_fork(plan, tmp_path / "fork", "")
    assert_whole(fork.path)
    assert sorted(path.name for path in fork.path.iterdir()) == [
        PACKAGE,
        f"{PACKAGE}-{VERSION}+vlmopt.dist-info",
        "patches",
        "report.md",
        "vllm",
        "vllm-1.2.3+vlmopt.dist-info",
        "vlmopt.lock.json",
    ]
    for path, text in FILES.items():
        own = path == MODEL
        assert (fork.path / path).is_symlink() != own
        assert (fork.path / path).read_text() == (plan.files[MODEL].after if own else text)
    assert snapshot(stock) == before


def test_the_lock_says_which_plug_in(fork: Fork, stock: Path) -> None:
    lock = json.loads((fork.path / "vlmopt.lock.json").read_text())
    plugin = lock["plugin"]
    assert {key: plugin[key] for key in ("package", "distribution", "version", "kind", "root")} == {
        "package": PACKAGE,
        "distribution": DISTRIBUTION,
        "version": VERSION,
        "kind": "installed",
        "root": str(stock),
    }
    assert list(plugin["sha256"]) == [MODEL]
    assert set(lock["files"][MODEL]) == {"before", "after"}
    assert MODEL not in lock["stock"]["sha256"]
    assert Fork.open(fork.path) == fork


def test_a_copy_holds_the_package_itself(plan: Plan, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "fork", "", copy=True)
    assert not [path for path in fork.path.rglob("*") if path.is_symlink()]
    assert (fork.path / f"{PACKAGE}/data.json").read_text() == FILES[f"{PACKAGE}/data.json"]
    assert problem(str(fork.path)) is None


def test_the_same_plan_gives_the_same_bytes(plan: Plan, tmp_path: Path) -> None:
    for name in ("one", "two", "one"):
        write_fork(plan, tmp_path / name, "")
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_a_fork_never_lies_in_the_plug_in(stock: Path, rules: Path, tmp_path: Path) -> None:
    root = install(stock, "path file")
    plan = plan_of(stock, rules)
    before = snapshot(tmp_path)
    for out in (root / PACKAGE / "fork", root / PACKAGE, root):
        with pytest.raises(UsageError, match=f"would overwrite the {PACKAGE} in"):
            write_fork(plan, out, "")
    assert snapshot(tmp_path) == before
    assert_whole(write_fork(plan, root / "build/fork", "").path)


def test_it_is_whole_where_vllm_is_not_on_this_machine(
    plugin: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(plugin))
    fork = write_fork(make_plan(MemoryTree(STOCK_FILES), SPEC, load_rules(rules)), tmp_path / "fork", "")
    assert not fork.lock.stock.complete
    assert all((fork.path / path).is_file() for path in FILES)
    assert not (fork.path / "vllm/version.py").exists()


def test_a_fork_that_does_not_fit_its_plug_in_says_so(fork: Fork, stock: Path) -> None:
    assert problem(str(fork.path)) is None
    (stock / PACKAGE / "models/other.py").write_text("import os\n")  # a link leads to it
    (stock / PACKAGE / "data.json").write_text("[]")
    assert problem(str(fork.path)) is None
    (stock / PACKAGE / "models/new.py").write_text("")
    assert f"{PACKAGE} has other Python files than the fork {fork.path} ({DISTRIBUTION} 4.5) has" in (
        problem(str(fork.path)) or ""
    )
    (stock / PACKAGE / "models/new.py").unlink()
    assert problem(str(fork.path)) is None
    (stock / MODEL).write_text(FILES[MODEL] + "\n")
    assert problem(str(fork.path)) == (
        f"{stock / MODEL} differs from what the fork {fork.path} ({DISTRIBUTION} {VERSION}) needs; "
        "run `vlmopt apply` again"
    )
    (stock / MODEL).unlink()
    assert "is gone, which the fork" in (problem(str(fork.path)) or "")


def test_what_stock_runs_with_is_known(fork: Fork, stock: Path) -> None:
    assert installed_plugin(fork).root == stock
    for path in (stock / f"{PACKAGE}-{VERSION}.dist-info").glob("METADATA"):
        path.unlink()
    (stock / f"{PACKAGE}-{VERSION}.dist-info").rename(stock / "gone")
    with pytest.raises(SourceError, match=f"the fork {fork.path}: the plug-in {DISTRIBUTION}"):
        installed_plugin(fork)


SHOW = f"""
import importlib.metadata
import {PACKAGE}.models.tiny
print({PACKAGE}.models.tiny.__file__, importlib.metadata.version('{DISTRIBUTION}'))
"""


@pytest.mark.parametrize("where", ["elsewhere", "beside the plug-in"])
def test_python_imports_the_overlay(where: str, stock: Path, rules: Path, tmp_path: Path) -> None:
    root = install(stock, "path file", FILES | {f"{PACKAGE}/__init__.py": "", MODEL: FILES[MODEL][13:]})
    fork = write_fork(plan_of(stock, rules), tmp_path / "fork", "")
    assert "table" in (fork.path / MODEL).read_text()
    (fork.path / MODEL).write_text("")  # what it imports is not there
    here = Path.cwd()
    os.chdir(root if where == "beside the plug-in" else tmp_path)
    try:
        environment = fork_environment(fork, os.environ)
        done = subprocess.run(
            [sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True, check=True
        )
    finally:
        os.chdir(here)
    assert done.stdout.split() == [str(fork.path / MODEL), f"{VERSION}+vlmopt"]


def test_the_patches_give_both_packages(fork: Fork, plan: Plan) -> None:
    texts = {path: change.before for path, change in plan.files.items()}
    for patch in fork.patches.values():
        for diff in read_patch(patch).files:
            texts[diff.path] = diff.apply(texts.get(diff.path, ""))
    assert texts == {path: change.after for path, change in plan.files.items()} | dict(plan.runtime_files)


def test_its_parts_can_be_taken_alone(fork: Fork, plan: Plan, stock: Path, tmp_path: Path) -> None:
    commands = dict(story_of_plan(plan).commands)
    vllms = commands["Take the patches alone, on a checkout of this release"]
    own = commands[f"The same in {PACKAGE}'s sources"]
    for package, command in (("vllm", vllms), (PACKAGE, own)):
        checkout = tmp_path / package
        for path, change in plan.files.items():
            if path.startswith(f"{package}/"):
                (checkout / path).parent.mkdir(parents=True)
                (checkout / path).write_text(change.before)
        subprocess.run(["git", "init", "-q", "."], cwd=checkout, check=True)
        subprocess.run(command.replace("FORK", str(fork.path)), cwd=checkout, check=True, shell=True)
        found = {path for path in plan.files if (checkout / path).exists()}
        assert found == {path for path in plan.files if path.startswith(f"{package}/")}
        for path in found:
            assert (checkout / path).read_text() == plan.files[path].after
        assert (checkout / "vllm/vlmopt_runtime/keys.py").exists() == (package == "vllm")


def test_the_story_tells_of_it(plan: Plan, fork: Fork) -> None:
    review = open_review(fork.path)
    story = story_of_fork(fork, review.patches)
    assert story == story_of_plan(plan)
    words = f"{DISTRIBUTION} {VERSION} (installed, {plan.tree.root}/{PACKAGE})"
    assert f"a model of {words})." in story.origin
    assert f"Files of vLLM and {PACKAGE} that change: 2" in story.summary
    assert words in story.guard
    text = report(plan)
    assert f"| `{MODEL}` | +" in text
    assert story.guard in text


def test_changes_since_apply_are_seen_in_both(fork: Fork) -> None:
    assert changed_since_apply(fork) == []
    (fork.path / MODEL).write_text("")
    (fork.path / PACKAGE / "new.py").write_text("")
    (fork.path / PACKAGE / "data.json").unlink()
    (fork.path / PACKAGE / "data.json").write_text("{}")
    assert changed_since_apply(fork) == sorted([MODEL, f"{PACKAGE}/new.py", f"{PACKAGE}/data.json"])


@pytest.mark.parametrize(("mark", "rule"), [("table(pixels)", "normalize"), ("fast_resize(", "fast-resize")])
def test_bisection_blames_a_rule_on_the_plug_in(fork: Fork, mark: str, rule: str) -> None:
    def breaks(folder: Path) -> bool:
        assert all((folder / path).exists() for path in [*FILES, *STOCK_FILES])
        assert (folder / f"{PACKAGE}-{VERSION}+vlmopt.dist-info").is_dir()
        return mark in (folder / MODEL).read_text()

    assert first_breaking_step(fork, breaks).rule == rule


def test_a_fork_without_a_plug_in_names_none(stock: Path, rules: Path, tmp_path: Path) -> None:
    plan = make_plan_of(stock, rules)
    fork = write_fork(plan, tmp_path / "fork", "")
    assert plan.plugin is None
    assert fork.lock.plugin is None
    assert story_of_plan(plan).plugin is None


NAMES = st.text("abcxyz_", min_size=1, max_size=6)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3)
    .map("/".join)
    .flatmap(lambda stem: st.sampled_from([".py", ".json", ".so", ""]).map(lambda end: f"{stem}.d{end}")),
    st.binary(max_size=20),
    max_size=8,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(more=TREES, how=st.sampled_from(["installed", "path file"]), copy=st.booleans())
def test_an_overlay_is_the_package_but_for_what_was_changed(
    stock: Path, rules: Path, tmp_path: Path, more: dict[str, bytes], how: str, copy: bool
) -> None:
    for leftover in (*stock.glob(f"*{PACKAGE[:4]}*"), tmp_path / "a project"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    root = install(stock, how)
    for path, data in more.items():
        (root / PACKAGE / path).parent.mkdir(parents=True, exist_ok=True)
        (root / PACKAGE / path).write_bytes(data)
    fork = write_fork(plan_of(stock, rules), tmp_path / "fork", "", copy=copy)
    there = {p.relative_to(root) for p in (root / PACKAGE).rglob("*") if p.is_file()}
    assert {p.relative_to(fork.path) for p in (fork.path / PACKAGE).rglob("*") if p.is_file()} == there
    for path in there:
        changed = path.as_posix() == MODEL
        assert ((fork.path / path).read_bytes() == (root / path).read_bytes()) != changed
        assert (fork.path / path).is_symlink() == (not changed and not copy)
    assert problem(str(fork.path)) is None
