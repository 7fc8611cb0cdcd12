"""The patch series, as git itself takes it."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vlmopt.fork import write_fork
from vlmopt.fork.patches import _mail, file_diff
from vlmopt.plan import Plan
from vlmopt.rules import Contract

from .cases import STOCK_FILES, make_plan_of

NEWLINES = st.sampled_from(["\n", "\n", "\r\n"])
LINES = st.text(st.sampled_from("ab -+@\\\t\x0c\x1c\u2028é"), max_size=6)


@st.composite
def texts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.tuples(LINES, NEWLINES), max_size=12))
    return "".join(line + newline for line, newline in lines) + draw(LINES)


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str]:
    """A text, and the same with some lines taken out, doubled or added."""
    before = draw(texts())
    lines = before.split("\n")
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(lines)))
        lines[place : place + draw(st.integers(0, 2))] = draw(st.lists(LINES, max_size=2))
    return before, "\n".join(lines)


def git(folder: Path, *command: str, stdin: str = "") -> str:
    settings = ("-c", "user.name=n", "-c", "user.email=e@localhost", "-c", "core.autocrlf=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *settings, *command],
        input=stdin.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def checkout(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "stock")
    return folder


def test_git_am_takes_the_series_to_the_same_files(plan: Plan, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "fork", "")
    repository = checkout(tmp_path / "checkout", STOCK_FILES)
    git(repository, "am", "-q", *map(str, fork.patches.values()))
    own = {
        path for path in fork.lock.files if path not in ("vllm/__init__.py", "vllm/vlmopt_runtime/guard.py")
    }
    assert {path for path in own if "vlmopt_runtime" in path}
    for path in own:
        assert (repository / path).read_bytes() == (fork.path / path).read_bytes()
    assert git(repository, "status", "--porcelain") == ""
    subjects = git(repository, "log", "--format=%s", "-3").splitlines()
    assert subjects == [
        "pinned: The pinned rule",
        "fast-resize: The fast-resize rule",
        "normalize: The normalize rule",
    ]
    normalize = git(repository, "log", "-1", "--format=%an <%ae> %ad%n%b", "HEAD~2")
    assert normalize.splitlines()[0] == "vlmopt <vlmopt@localhost> Sat Jan 1 00:00:00 2000 +0000"
    # What would end the message for git is only indented.
    assert "Été is --- From 9 to 5." in normalize
    assert "\n diff --git a/x b/x" in normalize
    assert normalize.rstrip().endswith("Contract: exact")
    assert "Contract: bounded (0.01)" in git(repository, "log", "-1", "--format=%b")


def test_each_patch_holds_what_its_rule_did(plan: Plan, tmp_path: Path) -> None:
    fork = write_fork(plan, tmp_path / "fork", "")
    repository = checkout(tmp_path / "checkout", STOCK_FILES)
    for rule in fork.lock.rules:
        if rule.patch:
            git(repository, "am", "-q", str(fork.path / rule.patch))
            for path in rule.files:
                text = dict(plan.files[path].steps)[rule.id]
                assert (repository / path).read_bytes().decode() == text
    runtime = git(repository, "log", "--format=%s", "--", "vllm/vlmopt_runtime/keys.py")
    assert runtime.strip() == "fast-resize: The fast-resize rule"


def test_a_file_with_carriage_returns_survives_git_am(stock: Path, rules: Path, tmp_path: Path) -> None:
    crlf = {
        path: text.replace("\n", "\r\n") for path, text in STOCK_FILES.items() if path != "vllm/_version.py"
    }
    for path, text in crlf.items():
        (stock / path).write_bytes(text.encode())
    fork = write_fork(make_plan_of(stock, rules), tmp_path / "fork", "")
    repository = checkout(tmp_path / "checkout", crlf)
    git(repository, "am", "-q", *map(str, fork.patches.values()))
    for path in ("vllm/models/tiny.py", "vllm/utils.py"):
        data = (repository / path).read_bytes()
        assert data == (fork.path / path).read_bytes()
        assert data.count(b"\n") == data.count(b"\r\n")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("patches") / "checkout", {"base": ""})


def mail(diff: str, **facts: Any) -> str:
    rule = SimpleNamespace(
        **{"id": "r", "title": "T", "why": "W", "bound": None, "contract": Contract.exact, **facts}
    )
    return _mail(rule, 1, 1, diff)  # type: ignore[arg-type]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes())
def test_git_makes_of_the_diff_the_same_bytes(repository: Path, change: tuple[str, str]) -> None:
    before, after = change
    if before == after:
        return
    (repository / "vllm").mkdir(exist_ok=True)
    (repository / "vllm/a.py").write_bytes(before.encode())
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "before", "--allow-empty")
    git(repository, "am", "-q", stdin=mail(file_diff("vllm/a.py", before, after)))
    assert (repository / "vllm/a.py").read_bytes() == after.encode()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts())
def test_git_makes_a_new_file_of_the_diff(repository: Path, text: str) -> None:
    git(repository, "rm", "-rq", "--ignore-unmatch", "vllm")
    git(repository, "commit", "-qm", "before", "--allow-empty")
    git(repository, "am", "-q", stdin=mail(file_diff("vllm/new.py", None, text)))
    assert (repository / "vllm/new.py").read_bytes() == text.encode()


WORDS = st.sampled_from(
    ["---", "diff --git a/x b/x", "From me", "Index: x", "word", "é", ">", "\n\n", "\n", "-- "]
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(WORDS, min_size=1, max_size=8).map(" ".join), st.sampled_from(["Plain", "Été\nà deux", "[x] y"])
)
def test_no_reason_cuts_a_patch_short(repository: Path, why: str, title: str) -> None:
    (repository / "text").write_text("1\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "before", "--allow-empty")
    git(repository, "am", "-q", stdin=mail(file_diff("text", "1\n", "2\n"), why=why, title=title))
    assert (repository / "text").read_text() == "2\n"
    message = git(repository, "log", "-1", "--format=%s%n%b")
    assert message.startswith("r: " + " ".join(title.split()))
    assert message.split()[-2:] == ["Contract:", "exact"]
    assert [word for word in why.split() if word not in message.split()] == []
