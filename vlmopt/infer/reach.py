"""Which code a method runs, as far as it can be told without running it.

From one method of a class, the functions it calls: through `self`, `super()`, `self.info`, and plain names
of the same or another file. Methods are looked up from the class at the bottom, as Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vlmopt.infer.code import Code, Definition, dotted_name

_DEEPEST = 8

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """Code that is reached: a function, or a module-level value; `owner` is the class of a method."""

    path: str
    node: FunctionNode | ast.expr
    owner: Definition | None = None


def method(lineage: Sequence[Definition], name: str, after: Definition | None = None) -> Site | None:
    """The method that a lookup of `name` finds (past the class `after`, as `super()` looks), or None."""
    start = lineage.index(after) + 1 if after in lineage else 0
    for cls in lineage[start:]:
        for statement in getattr(cls.node, "body", ()):
            if isinstance(statement, FunctionNode) and statement.name == name:
                return Site(cls.path, statement, cls)
    return None


def reachable(
    code: Code, lineage: Sequence[Definition], start: str, word: str, info: Sequence[Definition] = ()
) -> list[Site]:
    """The sites that method `start` of a class reaches, itself first.

    Only files whose text contains `word` are followed into: what is looked for cannot be elsewhere.
    """
    first = method(lineage, start)
    if first is None:
        return []
    sites = [first]
    queue = [(first, 0)]
    while queue:
        site, depth = queue.pop(0)
        if depth == _DEEPEST:
            continue
        for target in _targets(code, site, lineage, info, word):
            if all(target.node is not known.node for known in sites):
                sites.append(target)
                queue.append((target, depth + 1))
    return sites


def _targets(
    code: Code, site: Site, lineage: Sequence[Definition], info: Sequence[Definition], word: str
) -> Iterator[Site]:
    for node in ast.walk(site.node):
        if isinstance(node, ast.Attribute):
            found = _attribute(node, site, lineage, info)
            if found:
                yield found
        elif isinstance(node, ast.Name) and code.may_lead_to(site.path, node.id, word):
            for definition in code.resolve(site.path, node.id)[:1]:
                if not definition.is_class and code.mentions(definition.path, word):
                    assert not isinstance(definition.node, ast.ClassDef)
                    yield Site(definition.path, definition.node)


def _attribute(
    node: ast.Attribute, site: Site, lineage: Sequence[Definition], info: Sequence[Definition]
) -> Site | None:
    name = dotted_name(node.value)
    if name == "self":
        return method(info if site.owner in info else lineage, node.attr)
    if name == "self.info":
        return method(info, node.attr)
    if isinstance(node.value, ast.Call) and dotted_name(node.value.func) == "super" and site.owner:
        return method(info if site.owner in info else lineage, node.attr, after=site.owner)
    return None
