"""The message of a drift names the rule, the edit, the file, the counts, and the nearest place."""

from pathlib import Path
from typing import Any

import pytest

from vlmopt.drift import Drift, drift_message
from vlmopt.errors import DriftError
from vlmopt.rewrite import Candidate

from .cases import FAST_RESIZE, MODEL, MOVE, NORMALIZE, SCALE, UTILS, plan, write_rule
from .memory_tree import MemoryTree


def _drift(tmp_path: Path, **options: Any) -> str:
    with pytest.raises(DriftError) as e:
        plan(tmp_path, **options)
    assert e.value.exit_code == 3
    return str(e.value).replace(f"{tmp_path}/", "")


def test_the_whole_message() -> None:
    candidate = Candidate(
        line=8,
        code="    scaled = pixels / 255  # to floats",
        difference="expected 127.5, found 255 at line 8",
    )
    drifts = [
        Drift("normalize", 2, "rules/normalize.yaml:14", MODEL, True, "class Tiny", (1, 1), 0, candidate),
        Drift("normalize", 3, "rules/normalize.yaml:20", "vllm/gone.py", False, None, (1, 1), 0, None),
        Drift("pinned", 1, "rules/pinned.yaml:6", UTILS, True, None, (2, 4), 1, None),
    ]
    assert drift_message(drifts, MemoryTree({})) == (
        "3 edits do not find the expected place in vLLM 1.2.3 (memory); nothing was written\n"
        "\n"
        "  rule      normalize, edit 2 (rules/normalize.yaml:14)\n"
        "  file      vllm/models/tiny.py\n"
        "  within    class Tiny\n"
        "  expected  1 match, found 0\n"
        "  nearest   line 8: scaled = pixels / 255  # to floats\n"
        "  differs   expected 127.5, found 255 at line 8\n"
        "\n"
        "  rule      normalize, edit 3 (rules/normalize.yaml:20)\n"
        "  file      vllm/gone.py is not in this vLLM\n"
        "\n"
        "  rule      pinned, edit 1 (rules/pinned.yaml:6)\n"
        "  file      vllm/utils.py\n"
        "  expected  2 to 4 matches, found 1\n"
        "  nearest   nothing in this file is close\n"
        "\n"
        "Next: add this vLLM's shape of the place to the rule (one_of), or leave it out: "
        "--skip normalize,pinned"
    )


def test_one_changed_value_is_pointed_at(tmp_path: Path) -> None:
    write_rule(tmp_path, "normalize", SCALE | {"match": "$x = pixels / 127.5", "replace": "$x = 1"})
    message = _drift(tmp_path)
    assert message.startswith("1 edit does not find the expected place in vLLM 1.2.3 (memory); nothing was")
    assert "normalize, edit 1 (normalize.yaml:6)" in message
    assert f"file      {MODEL}" in message
    assert "within    class Tiny > def embed" in message
    assert "expected  1 match, found 0" in message
    assert "line 8: scaled = pixels / 255" in message
    differs = next(line for line in message.splitlines() if line.startswith("  differs"))
    assert "127.5" in differs
    assert "255" in differs
    assert message.endswith("--skip normalize")


def test_too_many_matches(tmp_path: Path) -> None:
    write_rule(tmp_path, "two", MOVE | {"match": "$f($...args)", "file": MODEL, "replace": "x"})
    message = _drift(tmp_path)
    assert "expected  1 match, found 2" in message


def test_two_shapes_that_both_hit(tmp_path: Path) -> None:
    shapes = [{"match": "move(item, $d)", "replace": "a"}, {"match": "move($i, device)", "replace": "b"}]
    write_rule(tmp_path, "both", {"file": UTILS, "one_of": shapes})
    assert "both, edit 1" in _drift(tmp_path)
    shapes[0]["match"] = "move(items, $d)"
    write_rule(tmp_path, "both", {"file": UTILS, "one_of": shapes})
    assert "for item in items" in plan(tmp_path).files[UTILS].after


def test_every_drift_of_a_run_is_told(tmp_path: Path) -> None:
    write_rule(tmp_path, "normalize", NORMALIZE | {"within": "class Gone"}, FAST_RESIZE | {"times": 2})
    write_rule(tmp_path, "pinned", MOVE | {"match": "moved(item, device)", "replace": "x"})
    message = _drift(tmp_path)
    assert message.startswith("3 edits do not find")
    assert [line for line in message.splitlines() if line.startswith("  rule")] == [
        "  rule      normalize, edit 1 (normalize.yaml:6)",
        "  rule      normalize, edit 2 (normalize.yaml:12)",
        "  rule      pinned, edit 1 (pinned.yaml:6)",
    ]
