"""The cache of compiled kernels, between forks that are folders with the same package."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from vlmopt.folders import runtime_folder
from vlmopt.runtime import kernel_cache

KERNEL = """
from numba import njit
from .kernel_cache import keep_on_disk

@keep_on_disk
@njit(nogil=True)
def tripled(x):
    return 3 * x
"""
RUN = """
import json, sys
from carried.kernels import tripled
value = int(sys.argv[1]) if sys.argv[1].isdigit() else float(sys.argv[1])
found = tripled(value)
hits, misses = (sum(counts.values()) for counts in (tripled.stats.cache_hits, tripled.stats.cache_misses))
print(json.dumps({"found": found, "hits": hits, "misses": misses}))
"""


class Forks:
    """Folders that carry one kernel, and processes that call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "cache"

    def fork(self, name: str, kernel: str = KERNEL, steps: str = "") -> Path:
        package = self.folder / name / "carried"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "kernels.py").write_text(kernel)
        (package / "steps.py").write_text(steps)
        shutil.copy(runtime_folder() / "kernel_cache.py", package)
        return package.parent

    def start(self, fork: Path, value: str = "7", **more: str) -> subprocess.Popen[str]:
        environment = {key: found for key, found in os.environ.items() if not key.startswith("NUMBA_")}
        environment |= {
            "PYTHONPATH": str(fork),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "home"),
        }
        environment |= {"VLLM_CACHE_ROOT": str(self.root)} | more
        return subprocess.Popen(
            [sys.executable, "-c", RUN, value],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, fork: Path, value: str = "7", **more: str) -> tuple[float, int, int]:
        return self.finish(self.start(fork, value, **more))

    def finish(self, process: subprocess.Popen[str]) -> tuple[float, int, int]:
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (0, "")
        answer = json.loads(out)
        return answer["found"], answer["hits"], answer["misses"]

    def files(self, under: Path) -> list[Path]:
        return sorted(path for path in under.rglob("*") if path.is_file())


@pytest.fixture
def forks(tmp_path: Path) -> Forks:
    return Forks(tmp_path)


def test_a_second_fork_finds_what_the_first_compiled_and_a_changed_one_does_not(forks: Forks) -> None:
    one, two = forks.fork("one"), forks.fork("two")
    assert forks.run(one) == (21, 0, 1)
    sources = forks.files(one)
    assert forks.run(two) == (21, 1, 0)
    changed = forks.fork("three", KERNEL.replace("3 *", "5 *"))
    os.utime(changed / "carried" / "kernels.py", ns=(0, 0))
    assert forks.run(changed) == (35, 0, 1)
    assert forks.run(two) == (21, 1, 0)
    assert forks.files(one) == sources
    assert not forks.files(forks.folder / "home")
    assert {path.suffix for path in forks.files(forks.root)} == {".nbi", ".nbc"}


@pytest.mark.parametrize("told", [False, True])
def test_a_kernel_is_compiled_anew_where_a_file_that_it_is_made_of_has_changed(
    forks: Forks, told: bool
) -> None:
    kernel = "from . import steps\nKERNEL_SOURCES = (steps.__file__,)" + KERNEL.replace(
        "3 * x", "steps.of(x)"
    )
    steps = "from numba import njit\n\nof = njit(lambda x: 3 * x)\n"
    place = {"NUMBA_CACHE_DIR": str(forks.folder / "told")} if told else {}
    fork = forks.fork("one", kernel, steps)
    assert forks.run(fork, **place) == (21, 0, 1)
    assert forks.run(forks.fork("two", kernel, steps), **place) == (21, 1, 0)
    (fork / "carried" / "steps.py").write_text(steps.replace("3", "5"))
    assert forks.run(fork, **place) == (35, 0, 1)


def test_where_the_folder_cannot_be_written_kernels_work_and_nothing_is_kept(forks: Forks) -> None:
    fork = forks.fork("one")
    sources = forks.files(fork)
    forks.root.write_text("not a folder")
    assert forks.run(fork) == (21, 0, 1)
    assert forks.files(fork) == sources
    assert not forks.files(forks.folder / "home")


def test_what_is_damaged_is_compiled_again(forks: Forks) -> None:
    fork = forks.fork("one")
    forks.run(fork)
    for path in forks.files(forks.root):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert forks.run(fork) == (21, 0, 1)
    assert forks.run(fork) == (21, 1, 0)


def test_processes_that_start_at_once_each_answer_right(forks: Forks) -> None:
    fork = forks.fork("one")
    at_once = {"7": 21, "2.5": 7.5}
    started = [(expected, forks.start(fork, value)) for value, expected in at_once.items()]
    for expected, process in started:
        assert forks.finish(process)[0] == expected
    for value, expected in at_once.items():
        forks.run(fork, value)
        assert forks.run(fork, value) == (expected, 1, 0)


def test_a_folder_that_numba_is_told_is_heeded(forks: Forks) -> None:
    fork = forks.fork("one")
    assert forks.run(fork, NUMBA_CACHE_DIR=str(forks.folder / "told")) == (21, 0, 1)
    assert forks.files(forks.folder / "told")
    assert not forks.root.exists()


def files(folder: Path) -> kernel_cache._Files:
    return kernel_cache._Files(cache_path=str(folder), filename_base="kernel", source_stamp="stamp")


def test_two_that_begin_with_one_index_never_take_each_others_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = files(tmp_path), files(tmp_path)
    beginning = first._load_index()
    with monkeypatch.context() as patch:  # both have read the index before either writes
        for process, key in ((first, "key of the first"), (second, "key of the second")):
            patch.setattr(process, "_load_index", lambda: dict(beginning))
            process.save(key, f"code for the {key}")
    for key in ("key of the first", "key of the second"):
        assert files(tmp_path).load(key) in (None, f"code for the {key}")
    assert files(tmp_path).load("key of the second") == "code for the key of the second"
    files(tmp_path).save("key of the first", "code for the key of the first")
    for key in ("key of the first", "key of the second"):
        assert files(tmp_path).load(key) == f"code for the {key}"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"VLLM_CACHE_ROOT": "/a/root"}, "/a/root"),
        ({"XDG_CACHE_HOME": "/a/cache"}, "/a/cache/vllm"),
        ({"HOME": "/a/home"}, "/a/home/.cache/vllm"),
        ({"HOME": "/a/home", "VLLM_CACHE_ROOT": "~/kept"}, "/a/home/kept"),
    ],
)
def test_it_lies_where_vllm_keeps_its_caches(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VLLM_CACHE_ROOT", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert kernel_cache.cache_root() == Path(expected)


def test_the_kernels_of_the_runtime_are_kept_there() -> None:
    from vlmopt.runtime import resample_kernels as kernels

    for kernel in (kernels.three_of_four, kernels.horizontal, kernels.vertical, kernels.windows):
        assert Path(kernel._cache.cache_path).is_relative_to(kernel_cache.cache_root() / kernel_cache.FOLDER)
