"""The stages of a request before its first token, read from `stages.yaml`, which says what each is."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from vlmopt import yamlfile
from vlmopt.errors import SpecError

OTHER = "other"
"""The id of what no stage saw."""
BEGIN, END = "begin", "end"

CallName = Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
Moment = Annotated[str, Field(pattern=r"^(begin|end|(start|done) [\w.]+:[\w.]+)$")]
Counts = Literal["wire", "features", "h2d", "arena"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Call(_Part):
    """A function that is timed, and what is read off its calls."""

    call: CallName
    counts: Counts | None = None


class Span(_Part):
    """From one moment of a request to another."""

    from_: Moment = Field(alias="from")
    to: Moment


def _as_call(value: object) -> object:
    return {"call": value} if isinstance(value, str) else value


class Stage(_Part):
    """One stage. `where` is the process that does it in a server."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z-]*$")]
    title: str
    what: str
    where: Literal["frontend", "engine"]
    device: bool = False
    calls: list[Annotated[Call, BeforeValidator(_as_call)]] = Field(default_factory=list)
    spans: list[Span] = Field(default_factory=list)
    model: list[Annotated[str, Field(pattern=r"^(mapping\.)?\w+$")]] = Field(default_factory=list)


class StageTable(_Part):
    """All stages in the order in which a request meets them, and what loads a model."""

    loaders: list[CallName]
    stages: list[Stage]

    @property
    def ids(self) -> list[str]:
        """The ids in order, without `OTHER`."""
        return [stage.id for stage in self.stages]


@functools.cache
def stage_table() -> StageTable:
    """The table that comes with vlmopt."""
    path = Path(__file__).with_name("stages.yaml")
    return yamlfile.validate(yamlfile.load(path, SpecError), StageTable, SpecError)
