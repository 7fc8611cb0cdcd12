"""The plan that a profile leads to: order, predictions, what is left out, and that `apply` follows it."""

import json

import pytest
from typer.testing import CliRunner

from tests.measure.profiles import made
from tests.plan.cases import FAST_RESIZE, FILES, MOVE, NORMALIZE, PINNED, SPEC, UTILS, write_rule
from tests.plan.memory_tree import MemoryTree
from tests.support.models import model_names
from vlmopt.cli import app
from vlmopt.errors import DriftError, UsageError
from vlmopt.measure.profile_file import keepsakes, read_profile, write_profile
from vlmopt.measure.savings import plan_from_profile
from vlmopt.measure.stages import stage_table
from vlmopt.rules import load_rules

MODEL = model_names()[0]
LOG = MOVE | {"within": "def batch", "before": "log()"}


@pytest.fixture
def family(tmp_path):
    """`a-base` saves nothing itself, `z-resize` needs it, `b-move` is alone, `c-quiet` is not predicted."""
    write_rule(tmp_path, "a-base", NORMALIZE, saves={})
    write_rule(tmp_path, "z-resize", FAST_RESIZE, needs=["a-base"], saves={"resize": 0.5, "split": 1})
    write_rule(tmp_path, "b-move", PINNED, saves={"batch": 1})
    write_rule(tmp_path, "c-quiet", LOG)
    return tmp_path


def planned(folder, shares, **options):
    strict = options.pop("strict", True)
    rules, tree = load_rules(folder), MemoryTree(FILES)
    return plan_from_profile(tree, SPEC, rules, made(shares), strict=strict, **options)


def rows(plan):
    return {saving.plan.rule.id: (saving.plan.status.value, saving.plan.reason) for saving in plan.savings}


def test_order_follows_the_savings_and_keeps_needs_before(family):
    large = planned(family, {"resize": 0.4, "split": 0.1, "batch": 0.05})
    assert list(rows(large)) == ["a-base", "z-resize", "b-move", "c-quiet"]
    assert [step for step, _ in large.plan.files["vllm/models/tiny.py"].steps] == ["a-base", "z-resize"]
    small = planned(family, {"resize": 0.04, "split": 0.01, "batch": 0.5})
    assert list(rows(small)) == ["b-move", "a-base", "z-resize", "c-quiet"]


def test_predictions(family):
    plan = planned(family, {"resize": 0.4, "split": 0.1, "batch": 0.05})
    found = {saving.plan.rule.id: saving for saving in plan.savings}
    assert found["z-resize"].share == pytest.approx(0.3)
    assert found["z-resize"].seconds == pytest.approx(0.03)
    assert found["z-resize"].stages == {"resize": 0.4, "split": 0.1}
    assert found["a-base"].needed_by == ("z-resize",)
    assert found["c-quiet"].share is None
    assert plan.share == pytest.approx(0.35)
    assert plan.seconds == pytest.approx(0.035)


def test_two_recipes_cannot_save_the_same_time_twice(family):
    write_rule(family, "d-more", {"file": UTILS, "within": "def batch", "body_start": "fast()"},
               saves={"batch": 0.5})  # fmt: skip
    assert planned(family, {"batch": 0.4, "resize": 0}).share == pytest.approx(0.4)


def test_what_saves_too_little_is_left_out_with_the_reason(family):
    plan = planned(family, {"resize": 0.5, "batch": 0.009})
    assert rows(plan)["b-move"] == ("skipped", "would save under 1% of the profile's time (batch 0.9%)")
    assert rows(plan)["c-quiet"][0] == "applied"
    assert "pinned" not in plan.plan.files[UTILS].after
    nothing = rows(planned(family, {"tower": 0.5}))
    assert nothing["a-base"] == ("skipped", "saves nothing by itself, and no recipe of this plan needs it")
    assert nothing["z-resize"][0] == "skipped"


def test_a_small_recipe_stays_where_a_large_one_needs_it(family):
    write_rule(family, "a-base", NORMALIZE, saves={"normalize": 1})
    plan = planned(family, {"resize": 0.5, "normalize": 0.001})
    assert rows(plan)["a-base"] == ("applied", "")


def test_options_come_before_the_profile(family):
    plan = planned(family, {"resize": 0.5, "batch": 0.2}, skip=["z-resize"])
    assert rows(plan)["z-resize"] == ("skipped", "left out by --skip")
    assert rows(plan)["a-base"][0] == "skipped"
    assert rows(plan)["b-move"][0] == "applied"


def test_drift_stops_apply_and_not_the_plan(family):
    write_rule(family, "b-move", PINNED | {"times": 3}, saves={"batch": 1})
    assert rows(planned(family, {"batch": 0.2}, strict=False))["b-move"][0] == "drifted"
    with pytest.raises(DriftError):
        planned(family, {"batch": 0.2})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"model": "other-2b"}, "the profile is of other-2b, not of tiny-1b: profile that model"),
        (
            {"side": "fork", "fork": "build/tiny-1b"},
            "the profile is of a fork, whose recipes have saved already",
        ),
    ],
)
def test_a_profile_of_something_else(family, facts, message):
    with pytest.raises(UsageError, match=message):
        plan_from_profile(MemoryTree(FILES), SPEC, load_rules(family), made({"resize": 1}, **facts))


def test_a_profile_of_another_release_is_noted(family):
    profile = made({"resize": 0.5}, vllm="1.2.2")
    plan = plan_from_profile(MemoryTree(FILES), SPEC, load_rules(family), profile)
    assert plan.notes == ("the profile is of vLLM 1.2.2, and this source is 1.2.3",)


def test_every_rule_saves_stages_that_there_are():
    for rule in load_rules():
        assert set(rule.saves or ()) <= set(stage_table().ids), rule.id
        assert rule.saves is not None or rule.id in ("patch-rows", "skip-fp8"), rule.id


def test_the_file_comes_back_as_it_was(tmp_path):
    path = tmp_path / "deep" / "p.json"
    write_profile(made({"resize": 0.5}), path)
    assert read_profile(path) == made({"resize": 0.5})
    path.with_suffix(".svg").write_text("<svg/>")
    assert keepsakes(path) == {
        "profile-stock.json": path.read_bytes(),
        "profile-stock.svg": b"<svg/>",
    }
    assert sorted(file.name for file in path.parent.iterdir()) == ["p.json", "p.svg"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory"),
        ("{", "is no profile of this version of vlmopt: the file"),
        ('{"format": 2}', "is no profile of this version of vlmopt: format"),
    ],
)
def test_a_file_that_is_no_profile(tmp_path, text, message):
    path = tmp_path / "p.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=message) as error:
        read_profile(path)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


@pytest.fixture
def vlmopt(tmp_path, monkeypatch):
    """The program in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        return CliRunner().invoke(app, [*words, "--model", MODEL], catch_exceptions=False)

    return run


def test_plan_without_a_profile_says_so(vlmopt, tmp_path):
    done = vlmopt("plan")
    assert done.exit_code == 0
    assert "No profile: recipes stand in the rules' own order, and nothing is predicted." in done.output
    assert "device-resize" in done.output
    assert not list(tmp_path.iterdir())


def test_apply_follows_the_plan_and_keeps_the_profile(vlmopt, tmp_path):
    profile = made({"resize": 0.3, "normalize": 0.3, "batch": 0.002}, model=MODEL, vllm="0.32.0")
    path = tmp_path / "p.json"
    write_profile(profile, path)
    said = json.loads(vlmopt("plan", "--profile", "p.json", "--json").output)
    page = vlmopt("plan", "--profile", "p.json").output
    assert vlmopt("apply", "--profile", "p.json", "--out", "fork").exit_code == 0
    lock = json.loads((tmp_path / "fork" / "vlmopt.lock.json").read_text())
    wrote = [(rule["id"], rule["status"], rule["reason"]) for rule in lock["rules"]]
    assert wrote == [(each["id"], each["status"], each["reason"]) for each in said["recipes"]]
    reasons = {name: reason for name, status, reason in wrote if status == "skipped"}
    assert reasons["batched-h2d"] == "would save under 1% of the profile's time (batch 0.2%)"
    assert reasons["batched-h2d"] in page
    assert [line.split()[0] for line in page.splitlines()[3 : 3 + len(wrote)]] == [each[0] for each in wrote]
    assert f"Together: {100 * said['saves_share']:.0f}% of 100.0 ms" in page
    assert (tmp_path / "fork" / "measured" / "profile-stock.json").read_bytes() == path.read_bytes()
    assert reasons["batched-h2d"] in (tmp_path / "fork" / "report.md").read_text()
