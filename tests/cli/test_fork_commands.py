"""apply, diff, run and wheel on the installed vLLM: exit codes, messages, and what lies where."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from vlmopt.sources import find_installed
from vlmopt.specs import Spec

from .command import arguments, environment, vlmopt
from .conftest import Applied

pytestmark = pytest.mark.engine


def test_apply_says_what_became_of_each_recipe_and_what_comes_next(applied: Applied) -> None:
    assert applied.done.code == 0
    assert applied.done.err == ""
    lines = applied.done.out.splitlines()
    locked = json.loads((applied.fork / "vlmopt.lock.json").read_text())["rules"]
    table = {words[0]: words[1] for line in lines if len(words := line.split()) > 1}
    for rule in locked:
        assert table[rule["id"]] == rule["status"]
    assert lines[-3:] == [
        f"fork    build/{applied.spec.name}",
        f"serve   vlmopt run build/{applied.spec.name} -- vllm serve {applied.spec.hub[0]}",
        f"review  vlmopt diff build/{applied.spec.name}",
    ]


def test_apply_by_hub_id_as_json_gives_the_same_bytes(applied: Applied, tmp_path: Path) -> None:
    out = tmp_path / "again"
    done = vlmopt("apply", "--model", applied.spec.hub[0], "--out", out, "--json")
    assert done.code == 0
    said = json.loads(done.out)
    assert list(said) == [
        "fork",
        "spec",
        "architecture",
        "vllm",
        "plugin",
        "recipes",
        "files",
        "new_files",
    ]
    assert said["fork"] == str(out)
    assert set(said["vllm"]) == {"version", "build", "kind", "location"}
    for recipe in said["recipes"]:
        assert set(recipe) == {"id", "status", "contract", "reason", "files"}
    for file in said["files"]:
        assert set(file) == {"path", "added", "removed", "recipes"}
        assert (out / file["path"]).read_bytes() == (applied.fork / file["path"]).read_bytes()
    for name in ("vlmopt.lock.json", "report.md"):
        assert (out / name).read_bytes() == (applied.fork / name).read_bytes()


def test_recipes_and_skip(spec: Spec, tmp_path: Path) -> None:
    words = ("apply", "--model", spec.name, "--out", tmp_path / "fork")
    done = vlmopt(*words, "--recipes", "batched-h2d,pinned-h2d", "--skip", "pinned-h2d")
    assert done.code == 2
    assert done.err == "vlmopt: recipe 'pinned-h2d' is both asked for and skipped\n"
    done = vlmopt(*words, "--recipes", "batched-h2d", "--json")
    statuses = {recipe["id"]: recipe["status"] for recipe in json.loads(done.out)["recipes"]}
    assert statuses.pop("batched-h2d") == "applied"
    assert set(statuses.values()) == {"skipped"}


@pytest.fixture(scope="module")
def damaged(spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of vLLM's Python files in which the processor's class has another name."""
    installed = find_installed()
    assert installed is not None
    assert installed.root is not None
    root = tmp_path_factory.mktemp("damaged")
    skip = shutil.ignore_patterns("*.so", "*.json", "__pycache__")
    shutil.copytree(installed.root / "vllm", root / "vllm", ignore=skip)
    file = root / spec.model.processor_module
    text = file.read_text()
    name = spec.model.processor_class
    file.write_text(text.replace(f"class {name}", f"class Renamed{name}"))
    return root


def test_drift_writes_nothing_and_names_rule_file_and_place(
    spec: Spec, damaged: Path, tmp_path: Path
) -> None:
    out = tmp_path / "fork"
    done = vlmopt("apply", "--model", spec.name, "--vllm", damaged, "--out", out, "--json")
    assert done.code == 3
    assert not out.exists()
    assert list(tmp_path.iterdir()) == []
    assert re.search(r"^  rule {6}\S+, edit \d+ \(.+\.yaml:\d+\)$", done.err, re.MULTILINE)
    assert f"file      {spec.model.processor_module}" in done.err
    assert "--skip" in done.err
    error = json.loads(done.out)["error"]
    assert (error["kind"], error["exit_code"]) == ("DriftError", 3)
    assert f"vlmopt: {error['message']}\n" == done.err


def test_a_folder_that_is_no_fork_is_left_alone(spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    done = vlmopt("apply", "--model", spec.name, "--out", tmp_path)
    assert done.code == 2
    assert "is no fork" in done.err
    assert done.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("delay", [0.3, 1.0, 2.0])
def test_ctrl_c_ends_quietly_and_leaves_the_fork_whole(
    applied: Applied, tmp_path: Path, delay: float
) -> None:
    out = tmp_path / "fork"
    shutil.copytree(applied.fork, out, symlinks=True)
    before = (out / "vlmopt.lock.json").read_bytes()
    words = arguments("apply", "--model", applied.spec.name, "--out", out)
    process = subprocess.Popen(
        words, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    # Before the program has begun, Python itself answers the signal; after its end there is nothing to stop.
    assert process.returncode in (130, 0, -signal.SIGINT)
    if process.returncode == 130:
        assert err == "interrupted\n"
    assert (out / "vlmopt.lock.json").read_bytes() == before
    assert (out / "vllm" / "__init__.py").is_file()
    assert os.listdir(tmp_path) == ["fork"]


def test_diff_gives_patches_that_git_takes(applied: Applied, tmp_path: Path) -> None:
    done = vlmopt("diff", applied.fork, "--json")
    assert done.code == 0
    said = json.loads(done.out)
    keys = ["fork", "spec", "vllm", "plugin", "recipes", "changed", "verification", "measured", "patches"]
    assert list(said) == keys
    name = said["patches"][0]["id"]
    shown = vlmopt("diff", applied.fork, "--recipe", name)
    assert said["patches"][0]["diff"] in shown.out
    assert "\x1b" not in shown.out
    page = tmp_path / "review.html"
    done = vlmopt("diff", applied.fork, "--html", page)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {page}\n")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("command", [["diff"], ["run", "--", "true"], ["wheel", "--out", "x.whl"]])
def test_what_is_no_fork_is_said_so(command: list[str], tmp_path: Path) -> None:
    done = vlmopt(command[0], tmp_path, *command[1:], cwd=tmp_path)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"vlmopt: {tmp_path} is no fork")
    assert done.err.count("\n") == 1


def test_run_passes_on_arguments_output_and_exit_code(applied: Applied) -> None:
    code = "import sys, importlib.util as u; print(u.find_spec('vllm').origin, *sys.argv[1:]); sys.exit(7)"
    done = vlmopt("run", applied.fork, "--", "python", "-c", code, "--json", "--help")
    assert done.code == 7
    assert done.out == f"{applied.fork}/vllm/__init__.py --json --help\n"
    done = vlmopt("run", applied.fork, "--", "no-such-command")
    assert done.code == 2
    assert done.err == "vlmopt: no-such-command: no such command; give its path, or install it\n"
