"""A rule's edits with their variables filled in: what the engine is asked to find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlmopt.errors import RuleError
from vlmopt.rewrite import Action, Edit, Probe, Shape
from vlmopt.rules import Rule, RuleProbe, RuleShape
from vlmopt.substitute import Variables, lookup
from vlmopt.treepath import VLLM, tree_path


@dataclass(frozen=True)
class BoundProbe:
    """A probe and where to look: the first of `files` that exists."""

    files: tuple[str, ...]
    probe: Probe
    where: str  # file:line of the rule, for messages


@dataclass(frozen=True)
class BoundEdit:
    """An edit and where to look. `elsewhere` holds the `already` probes that look into other files."""

    number: int
    files: tuple[str, ...]
    edit: Edit
    elsewhere: tuple[BoundProbe, ...]
    where: str


def bind_edits(rule: Rule, variables: Variables, only: int | None = None) -> list[BoundEdit]:
    """The edits of a rule (or the one with number `only`), ready for the engine.

    Raises:
        RuleError: a variable is unknown, or a file is outside the tree; with file and line.
    """
    numbers = range(1, len(rule.edits) + 1) if only is None else [only]
    return [_bind_edit(rule, number, variables) for number in numbers]


def bind_rule_probes(rule: Rule, variables: Variables) -> list[BoundProbe]:
    """The probes that say that the whole rule is upstream. Raises RuleError as `bind_edits` does."""
    return [
        _bind_probe(probe, rule.where("already", i), variables, files=(), within=None)
        for i, probe in enumerate(rule.already)
    ]


def _bind_edit(rule: Rule, number: int, variables: Variables) -> BoundEdit:
    raw = rule.edits[number - 1]
    place = ("edits", number - 1)
    where = rule.where(*place)
    files = _files(raw.file, rule.where(*place, "file"), variables)
    within = None if raw.within is None else variables.fill(raw.within, rule.where(*place, "within"))
    probes = [
        _bind_probe(probe, rule.where(*place, "already", i), variables, files=files, within=within)
        for i, probe in enumerate(raw.already)
    ]
    edit = Edit(
        name=f"{rule.id}#{number}",
        within=within,
        shapes=_shapes(rule, place, raw.shapes, variables, in_list=raw.one_of is not None),
        times=raw.times,
        already=tuple(probe.probe for probe in probes if probe.files == files),
        imports=tuple(
            variables.fill(line, rule.where(*place, "imports", i)) for i, line in enumerate(raw.imports)
        ),
    )
    return BoundEdit(number, files, edit, tuple(probe for probe in probes if probe.files != files), where)


def _shapes(
    rule: Rule, place: tuple[str | int, ...], shapes: Sequence[RuleShape], variables: Variables, in_list: bool
) -> tuple[Shape, ...]:
    bound = []
    for i, shape in enumerate(shapes):
        at = (*place, "one_of", i) if in_list else place
        (action, code) = shape.actions[0]
        bound.append(
            Shape(
                match=None if shape.match is None else variables.fill(shape.match, rule.where(*at, "match")),
                action=Action(action),
                code=variables.fill(code, rule.where(*at, action)),
                where=_constraints(shape.where, rule.where(*at, "where"), variables),
            )
        )
    return tuple(bound)


def _bind_probe(
    raw: RuleProbe, where: str, variables: Variables, *, files: tuple[str, ...], within: str | None
) -> BoundProbe:
    """A probe without a file looks where its edit looks: in the same file and, unless it names one, scope."""
    if raw.file is not None:
        files, within = _files(raw.file, where, variables), None
    if raw.within is not None:
        within = variables.fill(raw.within, where)
    probe = Probe(
        match=variables.fill(raw.match, where),
        within=within,
        where=_constraints(raw.where, where, variables),
    )
    return BoundProbe(files, probe, where)


def _constraints(raw: Mapping[str, str], where: str, variables: Variables) -> dict[str, str]:
    return {name: variables.fill(value, where) for name, value in raw.items()}


def _files(raw: Sequence[str], where: str, variables: Variables) -> tuple[str, ...]:
    """The paths, filled in; all of them in vLLM, or in the plug-in that the spec names."""
    named, package = lookup(variables.facts, "plugin.package")
    packages = (VLLM, str(package)) if named else (VLLM,)
    files = []
    for template in raw:
        try:
            files.append(tree_path(variables.fill(template, where), packages))
        except ValueError as error:
            raise RuleError(f"{where}: {error}") from None
    return tuple(files)
