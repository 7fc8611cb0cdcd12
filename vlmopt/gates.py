"""What keeps a rule out before any source is read. Each gate gives its reason in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from vlmopt.errors import RuleError, UsageError
from vlmopt.rules import Contract, Rule, check_ids, with_needs
from vlmopt.specs import Images, Placeholder, Spec
from vlmopt.substitute import lookup

LEVELS = (Contract.exact, Contract.bounded, Contract.approximate)


class Selection:
    """Which rules were asked for: `--recipes`, `--skip` and `--allow`; and `left_out`, why others are not.

    Raises:
        UsageError: an unknown recipe or level, or a recipe that is both asked for and skipped.
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        recipes: Collection[str] | None,
        skip: Collection[str],
        allow: str,
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        if allow not in LEVELS:
            raise UsageError(f"there is no level {allow!r} to allow; choose {', '.join(LEVELS)}")
        check_ids(skip, rules)
        both = sorted(set(recipes or ()) & set(skip))
        if both:
            raise UsageError(f"recipe {both[0]!r} is both asked for and skipped")
        self.wanted = None if recipes is None else with_needs(recipes, rules)
        self.skip = frozenset(skip)
        self.allow = Contract(allow)
        self.left_out = left_out

    def refusal(self, rule: Rule) -> str | None:
        """Why this rule is left out; None when it is wanted."""
        if rule.id in self.skip:
            return "left out by --skip"
        if self.wanted is not None and rule.id not in self.wanted:
            return "not among --recipes"
        if rule.id in self.left_out:
            return self.left_out[rule.id]
        if rule.contract is Contract.not_about_outputs:
            if self.wanted is None and self.allow is not Contract.approximate:
                return f"makes no promise about outputs; ask for it by --recipes {rule.id}"
        elif LEVELS.index(rule.contract) > LEVELS.index(self.allow):
            return f"its contract is {rule.contract.value}; --allow {rule.contract.value} lets it in"
        return None


def unmet_condition(rule: Rule, spec: Spec, facts: Mapping[str, Any]) -> str | None:
    """Why the rule's `when` does not hold for this model, in words; None when it holds.

    A fact that is a list or a mapping meets a condition when any of its values does.

    Raises:
        RuleError: `when` asks for a fact that no spec can have.
    """
    for path, condition in rule.when.items():
        allowed = condition if isinstance(condition, list) else [condition]
        words = " or ".join(_words(value) for value in allowed)
        found, value = lookup(facts, path)
        if not found:
            _check_fact(rule, path)
            return f"spec {spec.name} gives no {path}; this recipe wants {words}"
        values = list(value.values()) if isinstance(value, Mapping) else value
        if not any(one in allowed for one in (values if isinstance(values, list) else [values])):
            return f"{path} is {_words(value)}; this recipe wants {words}"
    return None


def unmet_need(rule: Rule, outcomes: Mapping[str, tuple[str, bool]]) -> str | None:
    """Why a need of the rule is not in place; None when all are. `outcomes`: id -> (status, in place)."""
    for need in rule.needs:
        status, in_place = outcomes[need]
        if not in_place:
            return f"needs {need}, which is {status} here"
    return None


def _check_fact(rule: Rule, path: str) -> None:
    """Sections whose keys are fixed: another path is a slip of the pen, not a missing fact."""
    section, _, rest = path.partition(".")
    fixed = {"images": Images.model_fields, "placeholder": Placeholder.model_fields}
    known: Collection[str] = Spec.model_fields
    key = section
    if section in fixed and rest:
        known, key = fixed[section], rest.partition(".")[0]
    if key not in known:
        raise RuleError(f"{rule.where('when', path)}: a spec has no fact {path!r}; it has {', '.join(known)}")


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "empty"
    return str(value).lower() if isinstance(value, bool) else str(value)
