"""What a caller asks of the engine, and what it answers: edits, splices and results.

Everything here is plain data. Offsets are character offsets in the text that was given, not bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Action(StrEnum):
    """Where the code of a shape goes, relative to what was matched."""

    replace = "replace"  # type: ignore[assignment]  # the method of str is not missed here
    before = "before"
    after = "after"
    body_start = "body_start"
    body_end = "body_end"
    attribute = "attribute"
    method = "method"
    base = "base"


class Outcome(StrEnum):
    """What became of an edit on one text."""

    hit = "hit"
    present = "present"
    already = "already"
    drift = "drift"


@dataclass(frozen=True)
class Shape:
    """One way the place of an edit may look, and the code to write there.

    `match` may be None for the actions whose target is the `within` scope itself (`body_start`, `body_end`,
    `attribute`, `method`, `base`). `where` maps a bound name to the code it must be, or to a `/regex/` that
    must be found in it.
    """

    match: str | None
    action: Action
    code: str
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Probe:
    """A pattern that is only looked for."""

    match: str
    within: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Edit:
    """One match-and-rewrite: exactly one of `shapes` must match between `times[0]` and `times[1]` times."""

    name: str
    within: str | None
    shapes: tuple[Shape, ...]
    times: tuple[int, int]
    already: tuple[Probe, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Splice:
    """Replace the characters `start` to `end` of the original text by `text`."""

    start: int
    end: int
    text: str
    edit: str
    kind: Literal["code", "import"]


@dataclass(frozen=True)
class Candidate:
    """The nearest place to a pattern that did not match as it should.

    `line` is 1-based, `code` is the first line of the place, `difference` says what keeps it from matching.
    """

    line: int
    code: str
    difference: str


@dataclass(frozen=True)
class EditResult:
    """What an edit found: `found` places by shape number `shape` (0-based; None when no shape matched)."""

    edit: Edit
    outcome: Outcome
    found: int
    shape: int | None
    splices: tuple[Splice, ...]
    candidate: Candidate | None
