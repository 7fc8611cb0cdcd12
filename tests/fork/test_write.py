"""What a fork holds, and that it is written whole or not at all."""

import errno
import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vlmopt.errors import DriftError, SourceError, UsageError
from vlmopt.fork import Fork, write_fork
from vlmopt.fork import staging as staging_module
from vlmopt.fork.write import guarded
from vlmopt.plan import Plan, Status

from .cases import BINARY, STOCK_FILES, assert_whole, make_plan_of, snapshot


def names_beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir())


def test_a_fork_has_the_layout_that_is_promised(plan: Plan, stock: Path, tmp_path: Path) -> None:
    out = tmp_path / "build/tiny"
    before = snapshot(stock)
    fork = write_fork(plan, out, "# the report\n")
    assert_whole(out)
    assert names_beside(out) == ["tiny"]
    assert sorted(path.name for path in out.iterdir()) == [
        "patches",
        "report.md",
        "vllm",
        "vllm-1.2.3+vlmopt.dist-info",
        "vlmopt.lock.json",
    ]
    changed = {path for path in STOCK_FILES if not (out / path).is_symlink()}
    assert changed == {"vllm/__init__.py", "vllm/models/tiny.py", "vllm/utils.py"}
    assert os.readlink(out / "vllm/_C.abi3.so") == str(stock / "vllm/_C.abi3.so")
    assert not list(out.rglob("__pycache__"))
    assert list(fork.patches) == ["normalize", "fast-resize", "pinned"]
    assert (out / "vllm/vlmopt_runtime/keys.py").is_file()
    assert (out / "report.md").read_text() == "# the report\n"
    assert snapshot(stock) == before


def test_the_lock_says_what_the_fork_was_made_of(plan: Plan, stock: Path, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "fork", "")
    lock = json.loads((fork.path / "vlmopt.lock.json").read_text())
    assert lock["vllm"] == {
        "version": "1.2.3",
        "build": "",
        "kind": "folder",
        "location": str(stock / "vllm"),
    }
    assert lock["spec"] == {
        "name": plan.spec.name,
        "title": plan.spec.title,
        "architecture": plan.spec.architecture,
        "hub": "",
        "sha256": plan.spec.sha256,
    }
    assert {rule["id"]: (rule["status"], rule["patch"]) for rule in lock["rules"]} == {
        "fast-resize": ("applied", "patches/0002-fast-resize.patch"),
        "normalize": ("applied", "patches/0001-normalize.patch"),
        "pinned": ("applied", "patches/0003-pinned.patch"),
        "rough": ("skipped", None),
    }
    assert lock["files"]["vllm/vlmopt_runtime/keys.py"]["before"] is None
    assert lock["stock"]["root"] == str(stock)
    assert Fork.open(fork.path) == fork


def test_the_same_plan_gives_the_same_bytes(plan: Plan, tmp_path: Path) -> None:
    write_fork(plan, tmp_path / "one", "report")
    previous = os.umask(0o077)
    try:
        write_fork(plan, tmp_path / "two", "report")
    finally:
        os.umask(previous)
    first = snapshot(tmp_path / "one")
    assert first == snapshot(tmp_path / "two")
    write_fork(plan, tmp_path / "one", "report")
    assert first == snapshot(tmp_path / "one")


def test_a_copy_has_no_links(plan: Plan, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "fork", "", copy=True)
    assert_whole(fork.path)
    assert not [path for path in fork.path.rglob("*") if path.is_symlink()]
    library = fork.path / "vllm/_C.abi3.so"
    assert library.read_bytes() == BINARY
    assert library.stat().st_mode & 0o777 == 0o755
    assert fork.lock.stock.root is None
    assert not list(fork.path.rglob("__pycache__"))


def test_links_to_folders_of_stock_are_laid_as_folders(plan: Plan, stock: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/data.json").write_text("{}")
    (stock / "vllm/linked").symlink_to(tmp_path / "elsewhere")
    (stock / "vllm/models/loop").symlink_to(stock / "vllm")
    fork = write_fork(plan, tmp_path / "fork", "")
    assert not (fork.path / "vllm/linked").is_symlink()
    assert (fork.path / "vllm/linked/data.json").read_text() == "{}"
    assert not (fork.path / "vllm/models/loop/models").exists()


def test_what_is_no_fork_is_not_replaced(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    write_fork(plan, out, "")  # an empty folder is fine
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="exists and is no fork: name another folder"):
        write_fork(plan, other, "")
    assert (other / "thesis.txt").read_text() == "x"
    with pytest.raises(UsageError, match="exists and is no fork"):
        write_fork(plan, other / "thesis.txt", "")


@pytest.mark.parametrize("inside", ["vllm", "vllm/models/fork", ".", "..", "linked"])
def test_stock_is_never_written(plan: Plan, stock: Path, inside: str) -> None:
    (stock / "linked").symlink_to(stock / "vllm/models", target_is_directory=True)
    before = snapshot(stock)
    with pytest.raises(UsageError, match="would overwrite the vLLM"):
        write_fork(plan, stock / inside, "")
    assert snapshot(stock) == before


def test_a_drifted_plan_is_not_written(plan: Plan, tmp_path: Path) -> None:
    drifted = replace(plan.rules[0], status=Status.drifted, reason="moved")
    with pytest.raises(DriftError, match=r"has drifted \(moved\); nothing was written"):
        write_fork(replace(plan, rules=(drifted, *plan.rules[1:])), tmp_path / "fork", "")
    assert not (tmp_path / "fork").exists()


def write_and_die(plans: list[Plan], out: Path, after: float) -> None:
    """A child writes forks over and over, and is killed after some seconds."""
    child = os.fork()
    if child == 0:
        while True:
            for number, plan in enumerate(plans):
                write_fork(plan, out, f"report {number}")
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_killed_run_leaves_a_whole_fork(
    plan: Plan, stock: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(staging_module, "_exchange", lambda one, other: False)
    for number in range(60):
        (stock / f"vllm/configs/{number}.json").write_text("{}")
    plans = [plan, make_plan_of(stock, rules, skip=["pinned"])]
    out = tmp_path / "build/fork"
    expected = []
    for number, made in enumerate(plans):
        write_fork(made, out, f"report {number}")
        expected.append(snapshot(out))
    seconds = random.Random(1)
    halves = 0
    for _ in range(25):
        write_and_die(plans, out, seconds.uniform(0.005, 0.06))
        halves += len(names_beside(out)) > 1
        if exchange:
            assert snapshot(out) in expected
        # The next run cleans up, whatever the last one left.
        write_fork(plans[0], out, "report 0")
        assert snapshot(out) == expected[0]
        assert names_beside(out) == ["fork"]
    assert halves, "no run was killed while it wrote"


def test_the_old_fork_comes_back_after_a_kill_between_two_renames(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "fork"
    write_fork(plan, out, "old")
    whole = snapshot(out)
    out.rename(tmp_path / ".fork.vlmopt-old")
    with pytest.raises(ZeroDivisionError), staging_module.replacing(out):
        raise ZeroDivisionError
    assert snapshot(out) == whole


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_full_disk_changes_nothing(plan: Plan, tmp_path: Path, data: st.DataObject) -> None:
    out = tmp_path / "fork"
    write_fork(plan, out, "old")
    whole = snapshot(out)
    room = data.draw(st.integers(0, 40), label="files that fit")
    calls = 0

    def full(original):  # type: ignore[no-untyped-def]
        def call(*args, **kwargs):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            if calls > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "mkdir", full(os.mkdir))
        patch.setattr(os, "link", full(os.link))
        patch.setattr(os, "symlink", full(os.symlink))
        patch.setattr(Path, "write_bytes", full(Path.write_bytes))
        try:
            write_fork(plan, out, "new")
            message = None
        except UsageError as error:
            message = str(error)
    if message is None:
        assert (out / "report.md").read_text() == "new"
    else:
        assert message == f"cannot write {out}: No space left on device; nothing was changed"
        assert snapshot(out) == whole
    assert [name for name in names_beside(out) if name.startswith(".")] == []


def test_a_place_that_cannot_be_written_is_said(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write .*file/fork: (Not a directory|File exists)"):
        write_fork(plan, tmp_path / "file/fork", "")


def test_a_folder_that_is_no_fork_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SourceError, match="is no fork: write one with `vlmopt apply"):
            Fork.open(path)
    for text in ("", "[]", "{}", '{"format": 99}', "\ud800".encode("utf-8", "surrogatepass")):
        (tmp_path / "vlmopt.lock.json").write_bytes(text.encode() if isinstance(text, str) else text)
        with pytest.raises(SourceError, match=r"vlmopt\.lock\.json"):
            Fork.open(tmp_path)


HEADS = [
    "# a comment\n",
    '"""A docstring."""\n',
    '"""A\ndocstring."""\n',
    "from __future__ import annotations\n",
    "",
]


@given(st.sampled_from(HEADS), st.sampled_from(HEADS[2:]), st.sampled_from(["\n", "\r\n"]))
def test_the_check_of_stock_comes_before_every_import(first: str, second: str, newline: str) -> None:
    text = f"{first}{second}import os\nX = 1\n".replace("\n", newline)
    changed = guarded(text)
    compile(changed, "vllm/__init__.py", "exec")
    added = [line for line in changed.split(newline) if line not in text.split(newline)]
    assert added == [
        "from .vlmopt_runtime.guard import check as _check_stock  # isort:skip",
        "_check_stock()",
        "del _check_stock",
    ]
    assert changed.index("_check_stock()") < changed.index("import os")
    assert changed.startswith(first.replace("\n", newline).rstrip())
    assert ("\n" in changed.replace("\r\n", "")) == (newline == "\n")


def test_an_interrupt_while_it_cleans_up_leaves_nothing_beside_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "fork"
    out.mkdir()
    remove = shutil.rmtree

    def interrupted(folder: Path, **options: bool) -> None:
        if folder.exists():
            os.kill(os.getpid(), signal.SIGINT)
        remove(folder, **options)

    monkeypatch.setattr(staging_module.shutil, "rmtree", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), staging_module.replacing(out) as folder:
        (folder / "new").touch()
    assert signal.getsignal(signal.SIGINT) is before
    assert os.listdir(tmp_path) == ["fork"]
    assert os.listdir(out) == ["new"]
