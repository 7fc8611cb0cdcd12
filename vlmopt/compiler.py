"""The way through the code in one call: source, spec and rules to a plan, and the plan to a fork."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from vlmopt.fork import Fork, write_fork
from vlmopt.plan import Plan, make_plan
from vlmopt.report.markdown import report
from vlmopt.rules import load_rules
from vlmopt.sources import Progress, open_tree
from vlmopt.specs import load_spec

BUILD_FOLDER = Path("build")


def compile_model(
    model: str,
    *,
    source: str | None = None,
    out: Path | None = None,
    recipes: Collection[str] | None = None,
    skip: Collection[str] = (),
    allow: str = "exact",
    copy: bool = False,
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
        progress: called while files are fetched or copied.

    Raises:
        VlmoptError: nothing was written; the message says why.
    """
    spec = load_spec(model)
    rules = load_rules()
    tree = open_tree(source, progress=progress)
    plan = make_plan(tree, spec, rules, recipes=recipes, skip=skip, allow=allow)
    fork = write_fork(plan, out or BUILD_FOLDER / spec.name, report(plan), copy=copy, progress=progress)
    return plan, fork
