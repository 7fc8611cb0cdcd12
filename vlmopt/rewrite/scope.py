"""Scopes: `class A > def f` names the classes and functions that a search is confined to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

import libcst as cst

from vlmopt.rewrite.errors import PatternError
from vlmopt.rewrite.nodes import Definition
from vlmopt.rewrite.region import Region

_STEP = re.compile(r"(class|(?:async\s+)?def)\s+([\w*?]+)")


@dataclass(frozen=True)
class Step:
    """One class or function of a scope; `name` may hold the wildcards `*` and `?`."""

    is_class: bool
    name: str

    def accepts(self, node: cst.CSTNode) -> bool:
        """Whether a node is the class or function that this step names."""
        kind = cst.ClassDef if self.is_class else cst.FunctionDef
        return (
            isinstance(node, Definition)
            and isinstance(node, kind)
            and fnmatchcase(node.name.value, self.name)
        )

    def __str__(self) -> str:
        return f"{'class' if self.is_class else 'def'} {self.name}"


@lru_cache(maxsize=4096)
def parse_scope(within: str) -> tuple[Step, ...]:
    """Read a scope. Raises PatternError when it is not `class NAME` and `def NAME` joined by `>`."""
    steps = []
    for part in within.split(">"):
        match = _STEP.fullmatch(part.strip())
        if match is None:
            raise PatternError(
                f"within: {part.strip()!r} is not 'class NAME' or 'def NAME' (steps are joined by '>')"
            )
        steps.append(Step(match[1] == "class", match[2]))
    return tuple(steps)


def definitions(region: Region, around: cst.CSTNode) -> Iterator[Definition]:
    """The classes and functions directly inside a node: through `if`, `with` and the like, not through each
    other."""
    for kind in (cst.ClassDef, cst.FunctionDef):
        for node in region.by_type.get(kind, ()):
            assert isinstance(node, Definition)
            if owner(region, node) is around:
                yield node


def owner(region: Region, node: cst.CSTNode) -> cst.CSTNode:
    """The class, function or module that a node stands in."""
    for parent in region.ancestors(node):
        if isinstance(parent, Definition):
            return parent
    return region.module


def resolve(region: Region, steps: tuple[Step, ...]) -> list[cst.CSTNode]:
    """The nodes that a scope names in a region, in source order; the module itself for no steps."""
    found: list[cst.CSTNode] = [region.module]
    for step in steps:
        found = [node for around in found for node in definitions(region, around) if step.accepts(node)]
    return sorted(found, key=lambda node: region.inner(node)[0])
