"""The plan that a profile leads to: recipes in the order of what they would save of the time that it saw."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmopt.errors import UsageError
from vlmopt.measure.profile_file import Profile
from vlmopt.plan import Plan, RulePlan, Status, make_plan
from vlmopt.rules import Rule, with_needs

if TYPE_CHECKING:
    from vlmopt.sources import Tree
    from vlmopt.specs import Spec

LEAST = 0.01
"""The share of the time before the first token below which a saving is not worth a recipe."""


@dataclass(frozen=True)
class Saving:
    """What is predicted of one recipe. `share` and `seconds` are None where a profile cannot show it.

    `stages` holds the share of each stage that it works on, as the profile saw it. `needed_by` names the
    recipes of the plan that cannot do without it.
    """

    plan: RulePlan
    share: float | None
    seconds: float | None
    stages: Mapping[str, float]
    needed_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfilePlan:
    """A plan made from a profile: what is predicted of each recipe, in the order of the plan, and of all."""

    plan: Plan
    profile: Profile
    savings: tuple[Saving, ...]
    share: float
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Predicted of all recipes that are applied, of the median request."""
        return self.share * self.profile.clock.median


def plan_from_profile(
    tree: Tree,
    spec: Spec,
    rules: Sequence[Rule],
    profile: Profile,
    *,
    recipes: Collection[str] | None = None,
    skip: Collection[str] = (),
    allow: str = "exact",
    strict: bool = True,
) -> ProfilePlan:
    """Plans as `make_plan`, in the order of the predicted savings and without what would save too little.

    A recipe that saves less than `LEAST` by itself stays where another one of the plan needs it, and so does
    one whose saving a profile cannot show.

    Raises:
        UsageError: the profile is of another model, or of a fork.
        VlmoptError: as `make_plan`.
    """
    if profile.model != spec.name:
        raise UsageError(f"the profile is of {profile.model}, not of {spec.name}: profile that model")
    if profile.side != "stock":
        raise UsageError(
            "the profile is of a fork, whose recipes have saved already: plan from a profile of stock "
            f"(`vlmopt profile --model {spec.name}`)"
        )
    shares = {rule.id: _share(rule, profile) for rule in rules}
    first = sorted(shares, key=lambda name: (-(shares[name] or 0), name))
    small = {name for name, share in shares.items() if share is not None and share < LEAST}
    whole = make_plan(tree, spec, rules, recipes=recipes, skip=skip, allow=allow, strict=False)
    applied = [each.rule.id for each in whole.rules if each.status is Status.applied]
    large = [name for name in applied if name not in small]
    left_out = {
        rule.id: _too_little(rule, profile)
        for rule in rules
        if rule.id in applied and rule.id in small - with_needs(large, rules)
    }
    plan = make_plan(
        tree,
        spec,
        rules,
        recipes=recipes,
        skip=skip,
        allow=allow,
        strict=strict,
        left_out=left_out,
        first=first,
    )
    used = [each.rule for each in plan.rules if each.status is Status.applied]
    notes = []
    if profile.vllm != tree.version:
        notes.append(f"the profile is of vLLM {profile.vllm}, and this source is {tree.version}")
    return ProfilePlan(
        plan,
        profile,
        tuple(_saving(each, shares[each.rule.id], profile, used) for each in plan.rules),
        _together(used, profile),
        tuple(notes),
    )


def _share(rule: Rule, profile: Profile) -> float | None:
    """What a rule would save of the whole time; None where a profile cannot show it."""
    if rule.saves is None:
        return None
    return sum(part * profile.share(stage) for stage, part in rule.saves.items())


def _together(applied: Sequence[Rule], profile: Profile) -> float:
    """What the rules save together: of what one leaves of a stage, the next saves its part."""
    left = {stage.id: stage.share for stage in profile.stages}
    for rule in applied:
        for stage, part in (rule.saves or {}).items():
            if stage in left:
                left[stage] *= 1 - part
    return sum(stage.share for stage in profile.stages) - sum(left.values())


def _saving(plan: RulePlan, share: float | None, profile: Profile, applied: Sequence[Rule]) -> Saving:
    rule = plan.rule
    needed_by = tuple(each.id for each in applied if rule.id in with_needs([each.id], applied) - {each.id})
    return Saving(
        plan,
        share,
        None if share is None else share * profile.clock.median,
        {stage: profile.share(stage) for stage in rule.saves or {}},
        needed_by,
    )


def _too_little(rule: Rule, profile: Profile) -> str:
    if not rule.saves:
        return "saves nothing by itself, and no recipe of this plan needs it"
    stages = ", ".join(f"{stage} {100 * profile.share(stage):.1f}%" for stage in rule.saves)
    return f"would save under {100 * LEAST:g}% of the profile's time ({stages})"
