"""The rule: one recipe, in `rules/ID.yaml`: what it matches, what it writes, what it promises."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, PrivateAttr, model_validator

from vlmopt import yamlfile
from vlmopt.errors import RuleError, UsageError
from vlmopt.folders import rules_folder, runtime_folder
from vlmopt.runtimefiles import with_imports

RuleId = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
StageId = Annotated[str, Field(pattern=r"^[a-z][a-z-]*$")]
Code = Annotated[str, Field(min_length=1)]
FactPath = Annotated[str, Field(pattern=r"^[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*$")]

ACTIONS = ("replace", "before", "after", "body_start", "body_end", "attribute", "method", "base")
_NEED_MATCH = ("replace", "before", "after")


class Contract(StrEnum):
    """What a rule promises about outputs. The order of strictness is `exact`, `bounded`, `approximate`."""

    exact = "exact"
    bounded = "bounded"
    approximate = "approximate"
    not_about_outputs = "n/a"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


def _as_probe(value: Any) -> Any:
    return {"match": value} if isinstance(value, str) else value


def _as_range(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, value)
    if isinstance(value, str) and (m := re.fullmatch(r"(\d+)\.\.(\d+)", value)):
        return (int(m[1]), int(m[2]))
    raise ValueError("expected a number of times, or a range such as 1..3")


Files = Annotated[
    list[Annotated[str, Field(min_length=1)]],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
]
Times = Annotated[
    tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]],
    BeforeValidator(
        _as_range,
        json_schema_input_type=Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^\d+\.\.\d+$")],
    ),
]


class RuleProbe(_Part):
    """Code that shows that upstream has what an edit, or the whole rule, brings."""

    file: Annotated[Files | None, Field(description="Where to look; the first of these that exists.")] = None
    within: Annotated[str | None, Field(description="The scope to look in, e.g. class A > def f.")] = None
    match: Annotated[Code, Field(description="The pattern.")]
    where: Annotated[dict[str, str], Field(description="Limits on what $names bind.")] = Field(
        default_factory=dict
    )


Probes = Annotated[
    list[Annotated[RuleProbe, BeforeValidator(_as_probe, json_schema_input_type=str | RuleProbe)]],
    BeforeValidator(_as_list, json_schema_input_type=str | RuleProbe | list[str | RuleProbe]),
]


class RuleShape(_Part):
    """One shape of a place: its pattern, and exactly one action with the code that it writes."""

    match: Annotated[Code | None, Field(description="The pattern; without it, the scope itself.")] = None
    where: Annotated[
        dict[str, str], Field(description="Limits on what $names bind: code, or /a regular expression/.")
    ] = Field(default_factory=dict)
    replace: Annotated[str | None, Field(description="Takes the place of the match.")] = None
    before: Annotated[Code | None, Field(description="Statements before the match.")] = None
    after: Annotated[Code | None, Field(description="Statements after the match.")] = None
    body_start: Annotated[Code | None, Field(description="Statements at the start of the body.")] = None
    body_end: Annotated[Code | None, Field(description="Statements at the end of the body.")] = None
    attribute: Annotated[Code | None, Field(description="An attribute of the class.")] = None
    method: Annotated[Code | None, Field(description="A method at the end of the class.")] = None
    base: Annotated[Code | None, Field(description="A base of the class.")] = None

    @property
    def actions(self) -> list[tuple[str, str]]:
        """(action, code) of each action that is given; one in a valid shape."""
        given = ((action, getattr(self, action)) for action in ACTIONS)
        return [(action, code) for action, code in given if code is not None]


def _check_shape(shape: RuleShape, within: str | None) -> None:
    if len(shape.actions) != 1:
        found = ", ".join(action for action, _ in shape.actions) or "none"
        raise ValueError(f"exactly one of {', '.join(ACTIONS)} is needed; found {found}")
    action = shape.actions[0][0]
    if shape.match is None and (action in _NEED_MATCH or within is None):
        raise ValueError(f"{action} needs a match" + ("" if action in _NEED_MATCH else " or a within"))
    if shape.match is None and shape.where:
        raise ValueError("where needs a match")


class RuleEdit(RuleShape):
    """One match-and-rewrite of a rule."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [key]} for key in (*ACTIONS, "one_of")]}
    )

    file: Annotated[Files, Field(description="The file to change; of several, the first that exists.")]
    within: Annotated[str | None, Field(description="The scope to look in, e.g. class A > def f.")] = None
    times: Annotated[Times, Field(description="How often it must hit: a number, or 1..3.")] = (1, 1)
    already: Annotated[Probes, Field(description="Code that shows that upstream has this edit.")] = Field(
        default_factory=list
    )
    imports: Annotated[list[Code], Field(description="Imports that the new code needs.")] = Field(
        default_factory=list
    )
    one_of: Annotated[
        list[RuleShape] | None,
        Field(min_length=2, description="The shapes that this place had; exactly one must hit."),
    ] = None

    @model_validator(mode="after")
    def _one_action_a_shape(self) -> RuleEdit:
        if self.one_of is not None and (self.match or self.where or self.actions):
            raise ValueError("one_of takes the place of match, where and the action; move them into it")
        for shape in self.shapes:
            _check_shape(shape, self.within)
        if self.times[0] > self.times[1]:
            raise ValueError(f"times: the range {self.times[0]}..{self.times[1]} is empty")
        return self

    @property
    def shapes(self) -> Sequence[RuleShape]:
        """The shapes of the place: those of `one_of`, or the edit itself."""
        return [self] if self.one_of is None else self.one_of


class Example(_Part):
    """A piece of code, and what the rule makes of it."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["before", "after"]}, {"required": ["untouched"]}]}
    )

    before: str | None = None
    after: str | None = None
    untouched: Annotated[str | None, Field(description="Code that every edit must leave as it is.")] = None
    edit: Annotated[int | None, Field(ge=1, description="Run this edit alone (1 is the first).")] = None
    variables: Annotated[
        dict[FactPath, JsonValue], Field(alias="with", description="Values of the ${variables} used.")
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _pair_or_untouched(self) -> Example:
        given = (self.before is not None, self.after is not None, self.untouched is not None)
        if given not in ((True, True, False), (False, False, True)):
            raise ValueError("an example has before and after, or untouched alone")
        return self


class Rule(_Part):
    """One recipe."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"contract": {"const": "bounded"}}},
            "then": {"required": ["bound"]},
        }
    )

    id: Annotated[RuleId, Field(description="The file's name without .yaml.")]
    title: Annotated[str, Field(min_length=1, description="What the rule does, in one line.")]
    why: Annotated[str, Field(min_length=1, description="The cost that it removes, with figures.")]
    contract: Annotated[Contract, Field(description="What the rule promises about outputs.")]
    bound: Annotated[
        float | None,
        Field(gt=0, description="Of contract bounded: how far a value that enters the tower may be off."),
    ] = None
    needs: Annotated[list[RuleId], Field(description="Rules that must be in place before this one.")] = Field(
        default_factory=list
    )
    when: Annotated[
        dict[FactPath, JsonValue],
        Field(description="Facts of the spec that must hold: a value, or a list of the values allowed."),
    ] = Field(default_factory=dict)
    already: Annotated[Probes, Field(description="Code that shows that upstream has this rule.")] = Field(
        default_factory=list
    )
    saves: Annotated[
        dict[StageId, Annotated[float, Field(gt=0, le=1)]] | None,
        Field(
            description="The part of each stage's time that the rule saves where those that it needs are in "
            "place, up to 1; {} for a rule that only others need; left out where a profile cannot show the "
            "saving. `vlmopt plan --profile` orders by it."
        ),
    ] = None
    edits: Annotated[list[RuleEdit], Field(min_length=1)]
    runtime: Annotated[
        list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\.(py|yaml)$")]],
        Field(description="Files of vlmopt/runtime that the fork then carries, with what they import."),
    ] = Field(default_factory=list)
    examples: Annotated[list[Example], Field(description="Run by `vlmopt rules check`.")] = Field(
        default_factory=list
    )

    _document: yamlfile.Document | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        if (self.contract is Contract.bounded) != (self.bound is not None):
            raise ValueError("bound belongs to contract bounded, and contract bounded needs it")
        for probe in self.already:
            if probe.file is None:
                raise ValueError("already of a whole rule needs a file")
        for example in self.examples:
            if example.edit is not None and example.edit > len(self.edits):
                raise ValueError(f"an example names edit {example.edit}, but there are {len(self.edits)}")
        return self

    @property
    def path(self) -> Path | None:
        """The file that the rule was read from; None for a rule made in memory."""
        return self._document.path if self._document else None

    @property
    def sha256(self) -> str:
        """Of the file's bytes; empty for a rule made in memory."""
        return self._document.sha256 if self._document else ""

    def where(self, *location: str | int) -> str:
        """`file:line` of one part, e.g. `where("edits", 0)`; the id for a rule made in memory."""
        return self._document.where(location) if self._document else f"rule {self.id}"


def read_rule(path: Path) -> Rule:
    """Reads one rule file. Its `runtime` then also holds what the files that it names import.

    Raises:
        RuleError: with file and line, for everything that can be wrong with it.
    """
    document = yamlfile.load(path, RuleError)
    rule = yamlfile.validate(document, Rule, RuleError)
    rule._document = document
    if rule.id != path.stem:
        raise RuleError(f"{rule.where('id')}: id is {rule.id!r}, but the file is {path.name}")
    for i, name in enumerate(rule.runtime):
        if not (runtime_folder() / name).is_file():
            raise RuleError(f"{rule.where('runtime', i)}: there is no vlmopt/runtime/{name}")
    return rule.model_copy(update={"runtime": with_imports(rule.runtime)})


def load_rules(folder: Path | None = None) -> list[Rule]:
    """All rules of a folder (by default those that come with vlmopt), each after those that it needs.

    Raises:
        RuleError: one is malformed, needs a rule that is not there, or needs itself in the end.
    """
    folder = folder or rules_folder()
    rules = [read_rule(path) for path in sorted(folder.glob("*.yaml"))]
    if not rules:
        raise RuleError(f"{folder}: no rule (*.yaml) in this folder")
    return in_order(rules)


def in_order(rules: Iterable[Rule], first: Sequence[str] = ()) -> list[Rule]:
    """The rules, each after those that it needs; where there is a choice as in `first`, then by id.

    A rule that another one needs comes as early as that one wants.

    Raises:
        RuleError: a need that is not among the rules, a rule given twice, or a cycle.
    """
    by_id: dict[str, Rule] = {}
    for rule in rules:
        if rule.id in by_id:
            raise RuleError(f"{rule.where('id')}: id {rule.id!r} is given twice")
        by_id[rule.id] = rule
    for rule in by_id.values():
        for i, need in enumerate(rule.needs):
            if need not in by_id:
                raise RuleError(f"{rule.where('needs', i)}: needs {need!r}, {_hint(need, by_id)}")
    waiting = {rule.id: set(rule.needs) for rule in by_id.values()}
    rank = {name: len(first) for name in by_id}
    for place, name in reversed(list(enumerate(first))):
        for needed in _reached(name, by_id):
            rank[needed] = place
    ready = [(rank[name], name) for name, needs in waiting.items() if not needs]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, done = heapq.heappop(ready)
        ordered.append(by_id[done])
        for name, needs in waiting.items():
            if done in needs:
                needs.remove(done)
                if not needs:
                    heapq.heappush(ready, (rank[name], name))
    if len(ordered) < len(by_id):
        stuck = sorted(name for name, needs in waiting.items() if needs)
        raise RuleError(f"{by_id[stuck[0]].where('needs')}: these rules need each other: {', '.join(stuck)}")
    return ordered


def with_needs(names: Iterable[str], rules: Sequence[Rule]) -> set[str]:
    """The ids in `names` and of every rule that they need, directly or not.

    Raises:
        UsageError: an id that no rule has; the message names the nearest.
    """
    by_id = {rule.id: rule for rule in rules}
    names = list(names)
    check_ids(names, rules)
    return {needed for name in names for needed in _reached(name, by_id)}


def _reached(name: str, by_id: Mapping[str, Rule]) -> set[str]:
    reached: set[str] = set()
    queue = [name] if name in by_id else []
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue.extend(by_id[name].needs)
    return reached


def check_ids(names: Iterable[str], rules: Sequence[Rule]) -> None:
    """Raises UsageError, with a hint, when a name in `names` is the id of no rule."""
    by_id = {rule.id: rule for rule in rules}
    for name in names:
        if name not in by_id:
            raise UsageError(f"there is no recipe {name!r}, {_hint(name, by_id)}")


def _hint(name: str, known: Mapping[str, Rule]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else "see `vlmopt rules list`"
