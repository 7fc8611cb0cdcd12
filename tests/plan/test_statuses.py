"""Which status a rule gets, and the reason in words."""

from pathlib import Path
from typing import Any

import pytest

from vlmopt.errors import DriftError, RuleError, UsageError

from .cases import FAST_RESIZE, MODEL, MOVE, NORMALIZE, PINNED, SCALE, UTILS, plan, statuses, write_rule


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ({"images.geometry": "fixed"}, ""),
        ({"images.geometry": ["tile-grid", "fixed"]}, ""),
        ({"images.outputs": "mask"}, ""),
        ({"images.outputs": ["grid-thw", "mask"]}, ""),
        ({"images.outputs.pixel_mask": "mask", "model.class": "Tiny"}, ""),
        ({"images.geometry": ["tile-grid", "split-global"]},
         "images.geometry is fixed; this recipe wants tile-grid or split-global"),
        ({"images.outputs": "grid-thw"}, "images.outputs is pixels, mask; this recipe wants grid-thw"),
        ({"placeholder.target": "text"}, "spec tiny-1b gives no placeholder.target; this recipe wants text"),
        ({"model.pixel_field": "x"}, "spec tiny-1b gives no model.pixel_field; this recipe wants x"),
        ({"images.resizes": "single", "images.library": "torchvision"},
         "images.library is pillow; this recipe wants torchvision"),
    ],
)  # fmt: skip
def test_conditions(tmp_path: Path, when: dict[str, Any], reason: str) -> None:
    write_rule(tmp_path, "pinned", PINNED, when=when)
    assert statuses(plan(tmp_path))["pinned"] == ("not-applicable" if reason else "applied", reason)


@pytest.mark.parametrize("path", ["image.geometry", "images.geometri", "placeholder.kind"])
def test_a_condition_on_a_fact_that_no_spec_has(tmp_path: Path, path: str) -> None:
    write_rule(tmp_path, "pinned", PINNED, when={path: "fixed"})
    with pytest.raises(RuleError, match=rf"pinned\.yaml:6: a spec has no fact '{path}'; it has"):
        plan(tmp_path)


@pytest.fixture
def family(tmp_path: Path) -> Path:
    write_rule(tmp_path, "base", PINNED)
    write_rule(tmp_path, "bounded", FAST_RESIZE, contract="bounded", bound=0.01, needs=["base"])
    write_rule(tmp_path, "loose", NORMALIZE, contract="approximate", needs=["bounded"])
    write_rule(tmp_path, "quiet", MOVE | {"within": "def batch", "before": "log()"}, contract="n/a")
    return tmp_path


ASKED = "not among --recipes"
QUIET = "makes no promise about outputs; ask for it by --recipes quiet"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["applied", "skipped its contract is bounded; --allow bounded lets it in",
              "skipped its contract is approximate; --allow approximate lets it in", f"skipped {QUIET}"]),
        ({"allow": "bounded"}, ["applied", "applied",
              "skipped its contract is approximate; --allow approximate lets it in", f"skipped {QUIET}"]),
        ({"allow": "approximate"}, ["applied", "applied", "applied", "applied"]),
        ({"recipes": ["quiet"]}, [f"skipped {ASKED}", f"skipped {ASKED}", f"skipped {ASKED}", "applied"]),
        ({"recipes": ["loose"], "allow": "approximate"},
         ["applied", "applied", "applied", f"skipped {ASKED}"]),
        ({"recipes": []}, [f"skipped {ASKED}"] * 4),
        ({"skip": ["base"], "allow": "approximate"},
         ["skipped left out by --skip", "skipped needs base, which is skipped here",
          "skipped needs bounded, which is skipped here", "applied"]),
    ],
)  # fmt: skip
def test_what_is_asked_for(family: Path, options: dict[str, Any], expected: list[str]) -> None:
    found = statuses(plan(family, **options))
    assert [" ".join(found[name]).strip() for name in ("base", "bounded", "loose", "quiet")] == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"recipes": ["bas"]}, "there is no recipe 'bas', did you mean 'base'?"),
        ({"skip": ["zzzzz"]}, "there is no recipe 'zzzzz', see `vlmopt rules list`"),
        ({"recipes": ["base"], "skip": ["base"]}, "recipe 'base' is both asked for and skipped"),
        ({"allow": "anything"}, "there is no level 'anything' to allow; choose exact, bounded, approximate"),
        ({"allow": "n/a"}, "there is no level 'n/a' to allow"),
    ],
)
def test_wrong_usage(family: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as e:
        plan(family, **options)
    assert says in str(e.value)


def test_a_rule_that_upstream_has(tmp_path: Path) -> None:
    probe = {"file": "${model.module}", "within": "class ${model.class}", "match": "self.tower($_)"}
    write_rule(tmp_path, "normalize", NORMALIZE, already=[probe | {"match": "nothing()"}, probe])
    write_rule(tmp_path, "next", PINNED, needs=["normalize"])
    made = plan(tmp_path)
    assert statuses(made) == {
        "normalize": ("already-upstream", f"{MODEL} has it"),
        "next": ("applied", ""),
    }
    assert set(made.files) == {UTILS}


@pytest.mark.parametrize(
    ("already", "holds"),
    [
        ("return self.tower($_)", True),
        (["nothing()", "return self.tower($_)"], True),
        ("resize($...args)", False),  # a bare pattern looks in the edit's own scope
        ({"match": "resize($...args)", "within": "class ${model.processor_class}"}, True),
        ({"match": "move($_, device)", "file": UTILS}, True),
        ({"match": "move($_, device)", "file": "vllm/gone.py"}, False),
        ({"match": "self.tower($_)", "file": UTILS}, False),  # it stands in the edit's file only
        ({"match": "move($x, device)", "file": UTILS, "where": {"x": "other"}}, False),
        ("nothing()", False),
    ],
)
def test_an_edit_that_upstream_has(tmp_path: Path, already: Any, holds: bool) -> None:
    gone = SCALE | {"match": "$x = pixels / 127.5", "replace": "x", "already": already}
    write_rule(tmp_path, "normalize", gone)
    if holds:
        assert statuses(plan(tmp_path))["normalize"] == ("already-upstream", f"{MODEL} has it")
    else:
        with pytest.raises(DriftError):
            plan(tmp_path)


def test_an_edit_that_hits_is_not_upstream(tmp_path: Path) -> None:
    for file in (UTILS, MODEL):
        probe = {"match": "$x = $y" if file == MODEL else "return $_", "file": file}
        write_rule(tmp_path, "pinned", PINNED | {"already": probe})
        assert statuses(plan(tmp_path)) == {"pinned": ("applied", "")}


def test_an_edit_of_a_file_that_upstream_dropped(tmp_path: Path) -> None:
    probe = {"file": MODEL, "match": "class Tiny:\n    $...body"}
    write_rule(tmp_path, "pinned", PINNED | {"file": "vllm/gone.py", "already": probe})
    assert statuses(plan(tmp_path))["pinned"][0] == "already-upstream"


def test_one_edit_upstream_and_one_not(tmp_path: Path) -> None:
    there = SCALE | {"match": "$x = pixels / 127.5", "replace": "x", "already": "return self.tower($_)"}
    write_rule(tmp_path, "both", there, PINNED)
    made = plan(tmp_path)
    assert statuses(made)["both"] == ("applied", "edit 1 of 2 already there")
    assert set(made.files) == {UTILS}


def test_what_needs_a_drifted_rule_is_skipped(tmp_path: Path) -> None:
    write_rule(tmp_path, "pinned", PINNED | {"times": 2})
    write_rule(tmp_path, "next", NORMALIZE, needs=["pinned"])
    made = plan(tmp_path, strict=False)
    assert statuses(made) == {
        "pinned": ("drifted", f"edit 1: expected 2 matches, found 1 in {UTILS}"),
        "next": ("skipped", "needs pinned, which is drifted here"),
    }
    assert made.files == {}


def test_a_rule_whose_places_may_be_missing(tmp_path: Path) -> None:
    write_rule(tmp_path, "maybe", PINNED | {"times": "0..3"})
    write_rule(tmp_path, "other", MOVE | {"match": "copy($_)", "replace": "x", "times": "0..3"})
    made = plan(tmp_path)
    assert statuses(made) == {
        "maybe": ("applied", ""),
        "other": ("not-applicable", "nothing in this source matches"),
    }
