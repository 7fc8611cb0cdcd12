"""Short ways to write edits in tests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from vlmopt.rewrite import Action, Edit, EditResult, Module, Probe, Shape, compose


def edit(
    action: str,
    match: str | None,
    code: str,
    within: str | None = None,
    times: tuple[int, int] = (1, 1),
    where: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
    already: Sequence[Probe] = (),
    name: str = "1",
) -> Edit:
    """An edit with one shape."""
    shape = Shape(match, Action(action), code, where or {})
    return Edit(name, within, (shape,), times, tuple(already), tuple(imports))


def apply(text: str, *edits: Edit) -> tuple[str, list[EditResult]]:
    """The text after the edits, and what each found."""
    module = Module(text, "file.py")
    results = [module.find(one) for one in edits]
    return compose(text, [(result.edit.name, result.splices) for result in results]), results


def code(text: str) -> str:
    """A dedented block without the newline that it begins with."""
    return textwrap.dedent(text).removeprefix("\n")
