"""Loud: damage the place that an edit anchors in, and nothing is written; the message leads to the place.

Each edit of each rule is taken where it hits the installed vLLM, for every model that it applies to. An
edit that hits there for no model (upstream has it) is damaged in its own example instead.
"""

import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache

import pytest

from vlmopt.bind import bind_edits
from vlmopt.errors import DriftError
from vlmopt.gates import unmet_condition
from vlmopt.modules import Modules
from vlmopt.plan import Plan, Status, make_plan
from vlmopt.rewrite import Outcome
from vlmopt.rules import Rule, load_rules
from vlmopt.sources import InstalledPlugin, PluggedTree, Tree, find_installed, find_plugin
from vlmopt.specs import Spec, list_specs
from vlmopt.substitute import Variables
from vlmopt.treepath import package_of

from .memory_tree import MemoryTree

INSTALLED = find_installed()
RULES = {rule.id: rule for rule in load_rules()}
SPECS = list_specs()
EDITS = [(rule.id, number) for rule in RULES.values() for number in range(1, len(rule.edits) + 1)]

pytestmark = pytest.mark.skipif(INSTALLED is None, reason="no vllm package is installed")


@dataclass(frozen=True)
class Anchor:
    """One place that an edit hits: a file's text, and what the edit looks for in it."""

    spec: Spec
    file: str
    text: str
    within: str | None
    match: str | None


@cache
def _installed() -> Modules:
    assert INSTALLED is not None
    return Modules(INSTALLED)


def _alone(rule: Rule) -> Rule:
    """The rule without what it needs, so that only its own files are read."""
    return rule.model_copy(update={"needs": []})


def _plan(tree: Tree, spec: Spec, rule: Rule, modules: Modules | None = None, strict: bool = True) -> Plan:
    return make_plan(
        tree, spec, [_alone(rule)], recipes=[rule.id], allow="approximate", strict=strict, modules=modules
    )


def _anchors(rule: Rule, number: int) -> list[Anchor]:
    specs = [spec for spec in SPECS if unmet_condition(rule, spec, spec.facts()) is None]
    assert specs, "no model that this rule is for"
    found: dict[str, Anchor] = {}
    for spec in specs:
        assert INSTALLED is not None
        (planned,) = _plan(INSTALLED, spec, rule, _installed(), strict=False).rules
        assert planned.status is not Status.drifted, planned.reason
        if planned.status is Status.applied and planned.edits[number - 1].result.outcome is Outcome.hit:
            edit = planned.edits[number - 1]
            shape = edit.result.edit.shapes[edit.result.shape or 0]
            anchor = Anchor(
                spec, edit.file, _installed().text(edit.file), edit.result.edit.within, shape.match
            )
            found[repr((anchor.file, anchor.within, anchor.match))] = anchor
    return list(found.values()) or [_example_anchor(rule, number, specs[0])]


def _example_anchor(rule: Rule, number: int, spec: Spec) -> Anchor:
    example = next(e for e in rule.examples if e.before is not None and e.edit in (None, number))
    (bound,) = bind_edits(rule, Variables(spec.facts(), "the spec"), number)
    assert example.before is not None
    assert len(bound.edit.shapes) == 1
    tree = MemoryTree({bound.files[0]: example.before}, INSTALLED)
    assert _plan(tree, spec, rule).rules[0].status is Status.applied
    return Anchor(spec, bound.files[0], example.before, bound.edit.within, bound.edit.shapes[0].match)


@dataclass(frozen=True)
class _DamagedPlugin(InstalledPlugin):
    """A plug-in with other text in one file."""

    damaged: tuple[str, str] = ("", "")

    def read(self, path: str) -> str:
        return self.damaged[1] if path == self.damaged[0] else super().read(path)


def _damaged_tree(anchor: Anchor, text: str) -> Tree:
    """The installed vLLM, and what plugs into it for the anchor's model, with another text in its file."""
    plugin = anchor.spec.plugin
    if plugin is None or package_of(anchor.file) != plugin.package:
        return MemoryTree({anchor.file: text}, INSTALLED)
    found = find_plugin(plugin.package, plugin.installed_as, beside=None, where="the test")
    known = {field.name: getattr(found, field.name) for field in fields(found)}
    return PluggedTree(MemoryTree({}, INSTALLED), _DamagedPlugin(**known, damaged=(anchor.file, text)))


def _damages(anchor: Anchor) -> Iterator[str]:
    """The anchor's text with one identifier of the anchor renamed, for each identifier."""
    if anchor.match is None:
        assert anchor.within is not None
        keyword_, name = anchor.within.split(">")[-1].split()
        yield re.sub(rf"\b{keyword_}(\s+){name}\b", rf"{keyword_}\1{name}_moved", anchor.text)
        return
    for name in _identifiers(anchor.match):
        yield re.sub(rf"\b{name}\b", f"{name}_moved", anchor.text)


def _identifiers(pattern: str) -> list[str]:
    code = re.sub(r"\$(\.\.\.)?\w+", "0", pattern)
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    names = [t.string for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string)]
    return list(dict.fromkeys(names))


@pytest.mark.parametrize(("name", "number"), EDITS, ids=lambda part: str(part))
def test_a_damaged_anchor_is_drift(name: str, number: int) -> None:
    rule = RULES[name]
    for anchor in _anchors(rule, number):
        damages = list(_damages(anchor))
        assert damages
        for damaged in damages:
            assert damaged != anchor.text
            with pytest.raises(DriftError) as e:
                _plan(_damaged_tree(anchor, damaged), anchor.spec, rule)
            assert e.value.exit_code == 3
            _check_message(str(e.value), rule, number, anchor.file, damaged)


def _check_message(message: str, rule: Rule, number: int, file: str, text: str) -> None:
    head, _, rest = message.partition(
        f"rule      {rule.id}, edit {number} ({rule.where('edits', number - 1)})\n"
    )
    assert "nothing was written" in head
    block = rest.partition("\n\n")[0].splitlines()
    assert block[0].strip() == f"file      {file}"
    assert any(re.fullmatch(r"  expected  \d+( to \d+)? match(es)?, found \d+", line) for line in block)
    (nearest,) = (re.fullmatch(r"  nearest   line (\d+): (.+)", line) for line in block if "nearest" in line)
    assert nearest, message
    assert nearest[2] in text.splitlines()[int(nearest[1]) - 1]
    assert any(re.fullmatch(r"  differs   .+", line) for line in block)
    assert f"--skip {rule.id}" in message


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("allow", ["exact", "approximate"])
def test_no_rule_drifts_on_the_installed_vllm(spec: Spec, allow: str) -> None:
    assert INSTALLED is not None
    made = make_plan(INSTALLED, spec, RULES.values(), allow=allow, modules=_installed())
    assert len(made.rules) == len(RULES)
    assert made.files
    for path, change in made.files.items():
        assert change.before == made.tree.read(path)
        compile(change.after, path, "exec")
        assert change.after == change.steps[-1][1] != change.before
