"""The way through the code in one call: source, spec and rules to a plan, and the plan to a fork."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from vlmopt.fork import Fork, write_fork
from vlmopt.measure.profile_file import keepsakes, read_profile
from vlmopt.measure.savings import ProfilePlan, plan_from_profile
from vlmopt.plan import Plan, make_plan
from vlmopt.report.markdown import report
from vlmopt.rules import load_rules
from vlmopt.sources import Progress, open_tree
from vlmopt.specs import load_spec

BUILD_FOLDER = Path("build")


def plan_model(
    model: str,
    *,
    source: str | None = None,
    skip: Collection[str] = (),
    allow: str = "exact",
    profile: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Plan, ProfilePlan | None]:
    """What `compile_model` would do, and what that would save where a profile is given. Writes nothing.

    Recipes that drift have the status `drifted`; nothing is raised for them.

    Raises:
        VlmoptError: the model, the source or the profile is wrong.
    """
    spec, rules = load_spec(model), load_rules()
    seen = None if profile is None else read_profile(profile)
    tree = open_tree(source, progress=progress)
    if seen is None:
        return make_plan(tree, spec, rules, skip=skip, allow=allow, strict=False), None
    predicted = plan_from_profile(tree, spec, rules, seen, skip=skip, allow=allow, strict=False)
    return predicted.plan, predicted


def compile_model(
    model: str,
    *,
    source: str | None = None,
    out: Path | None = None,
    recipes: Collection[str] | None = None,
    skip: Collection[str] = (),
    allow: str = "exact",
    copy: bool = False,
    profile: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Plan, Fork]:
    """Compiles the recipes into a fork.

    Args:
        model: a spec's name, a path to one, or a hub id that one claims.
        source: where vLLM is read from, as `vlmopt.sources.open_tree` takes it.
        out: the fork's folder; None for `build/NAME`.
        recipes: the recipes to use, with what they need; None for all whose contract is allowed.
        skip: recipes to leave out.
        allow: the loosest contract that may be used: `exact`, `bounded` or `approximate`.
        copy: copy the unchanged files of vLLM instead of linking to them.
        profile: a profile of stock; recipes follow the plan that it leads to (`vlmopt.measure.savings`), and
            the fork keeps a copy of it.
        progress: called while files are fetched or copied.

    Raises:
        VlmoptError: nothing was written; the message says why.
    """
    spec = load_spec(model)
    rules = load_rules()
    tree = open_tree(source, progress=progress)
    kept: dict[str, bytes] = {}
    if profile is None:
        plan = make_plan(tree, spec, rules, recipes=recipes, skip=skip, allow=allow)
    else:
        seen = read_profile(profile)
        plan = plan_from_profile(tree, spec, rules, seen, recipes=recipes, skip=skip, allow=allow).plan
        kept = keepsakes(profile)
    fork = write_fork(plan, out or BUILD_FOLDER / spec.name, report(plan), copy=copy, progress=progress)
    for name, content in kept.items():
        path = fork.path / "measured" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return plan, fork
