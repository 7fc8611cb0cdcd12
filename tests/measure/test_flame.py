"""Flame graphs: austin looks into a real process, and the picture stands alone."""

import os
import signal
import subprocess
import sys
import textwrap
from xml.etree import ElementTree

import pytest

from vlmopt.errors import UsageError
from vlmopt.measure import flame
from vlmopt.measure.flame_svg import flame_svg

SPIN = """
    import subprocess, sys, time

    def hot_in_the_child():
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass

    def hot_in_the_parent():
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass

    if len(sys.argv) < 2:
        child = subprocess.Popen([sys.executable, __file__, "child"], stdin=subprocess.PIPE, text=True)
        for line in sys.stdin:
            print(line, end="", file=child.stdin, flush=True)
            hot_in_the_parent()
            print("done", flush=True)
    else:
        for line in sys.stdin:
            hot_in_the_child()
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def spinning(tmp_path):
    """Two processes that sleep until they are asked, as a vLLM does."""
    program = tmp_path / "spin.py"
    program.write_text(textwrap.dedent(SPIN))
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def test_a_graph_of_a_process_and_its_child(spinning, tmp_path, monkeypatch):
    monkeypatch.setattr(flame, "SECONDS", 1.0)

    def ask():
        print("go", file=spinning.stdin, flush=True)
        assert spinning.stdout.readline() == "done\n"
        calls.append(1)

    calls = []
    ask()
    out = tmp_path / "out" / "profile-stock.json"
    austin = flame.find(True)
    files = flame.draw(austin, spinning.pid, ask, out, title="A & B")
    assert [path.name for path in files] == ["profile-stock.collapsed", "profile-stock.svg"]
    assert len(calls) >= flame.LEAST
    lines = files[0].read_text().splitlines()
    stacks = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    for process, function in (("first process", "parent"), ("its engine process", "child")):
        found = [stack for stack in stacks if f"hot_in_the_{function}" in stack]
        assert found, (process, stacks)
        assert all(stack.startswith(f"{process};main thread;") for stack in found)
        assert sum(stacks[stack] for stack in found) > 100_000
    text = files[1].read_text()
    assert ElementTree.fromstring(text).get("aria-label") == "A & B"
    assert "hot_in_the_parent" in text
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(path.name for path in files)
    assert spinning.poll() is None, "the process that is looked into goes on"


def test_a_process_that_is_not_there(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(UsageError, match="austin cannot look into the process"):
        flame.draw(flame.find(True), gone.pid, lambda: None, tmp_path / "p.json", title="")
    assert not list(tmp_path.iterdir())


def test_austin_that_is_missing(monkeypatch):
    monkeypatch.setattr(flame.shutil, "which", lambda *_, **__: None)
    assert flame.find(None) is None
    assert flame.find(False) is None
    with pytest.raises(UsageError, match="a flame graph is drawn by austin, which is not here: install"):
        flame.find(True)


def test_stacks_are_named_by_package_and_function():
    python = "/opt/python3.11/threading.py:Thread.run:982"
    lines = [
        "# austin: 3.7.0",
        "",
        "P7;T0:7;/x/site-packages/vllm/a.py:A.f:3;/vlmopt/measure/probe.py:timed:9;/z/lib/b.py:<module>:1 40",
        "P7;T0:7;/x/site-packages/vllm/a.py:A.f:5;/z/lib/b.py:<module>:2 60",
        f"P8;T0:9;{python} 5",
        "P7;T0:7;/home/vllm/build/a-fork/vllm/vlmopt_runtime/packer.py:Packer.pack:7 30",
        "P7;T0:7;/home/checkout/vlmopt/engine/offline.py:_prompt:7 20",
        "P8;T0:9 7",
        "P8;T0:9;:INVALID:0 9",
        "P7;T0:7;torn line",
    ]
    assert flame.collapse(lines, 7) == {
        "first process;main thread;vllm/a.py:A.f;lib/b.py:<module>": 100,
        "first process;main thread;vllm/vlmopt_runtime/packer.py:Packer.pack": 30,
        "first process;main thread;vlmopt/engine/offline.py:_prompt": 20,
        "its engine process;other threads;python3.11/threading.py:Thread.run": 5,
    }


def test_the_picture_needs_nothing_and_shows_every_frame_that_can_be_seen():
    stacks = {
        "first process;main thread;vllm/a.py:<lambda>": 600_000,
        "first process;main thread;vllm/vlmopt_runtime/packer.py:pack": 399_900,
        "first process;main thread;torch/nn.py:tiny": 100,
    }
    text = flame_svg(stacks, 'Stock "offline" <1>')
    assert text == flame_svg(dict(reversed(stacks.items())), 'Stock "offline" <1>')
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == 'Stock "offline" <1>'
    tips = [title.text for title in root.iter(f"{SVG}title")]
    assert "vllm/a.py:<lambda>, 600.0 ms, 60.0%" in tips
    assert not any("tiny" in tip for tip in tips)
    kinds = {group[0].text.split(",")[0]: group[1].get("class") for group in root.iter(f"{SVG}g")}
    assert kinds["vllm/a.py:<lambda>"] == "vllm"
    assert kinds["vllm/vlmopt_runtime/packer.py:pack"] == "fork"
    assert kinds["main thread"] == "other"
    for word in ("http://", "https://", "script", "href", "url(", "@import"):
        assert word not in text.replace("http://www.w3.org/2000/svg", ""), word
    width = float(root.get("viewBox").split()[2])
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x")) + float(rect.get("width")) <= width
