"""What is known of a fork beside its patches: verifications, a benchmark, files changed since `apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from vlmopt.errors import SourceError
from vlmopt.measure.bench_file import Bench, Side, bench_path, read_bench
from vlmopt.measure.profile_file import Profile, profile_path, read_profile
from vlmopt.report.wording import promise_words, stage_words
from vlmopt.rules import Contract
from vlmopt.verify import RESULT_NAME
from vlmopt.verify.steps import changed_since_apply

if TYPE_CHECKING:
    from vlmopt.fork import Fork

UNVERIFIED = "Not verified yet: vlmopt verify FORK compares the fork with stock, stage by stage."
UNMEASURED = "No benchmark yet: vlmopt bench FORK measures the fork against stock."


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class VerifiedStage(_Facts):
    """One stage of a verification: how often it was compared, how often it differed and by how much."""

    stage: str
    compared: int
    differed: int
    distance: float | None


class Broken(_Facts):
    """The smallest failing case."""

    breaches: tuple[str, ...]
    case: tuple[str, ...]
    culprit: str | None
    stable: bool


class Verified(_Facts):
    """The last verification of one level, as `verification.json` holds it."""

    level: str
    model: str
    seed: int
    contract: str
    holds: bool
    examples: int
    requests: int
    images: int
    refused: int
    seconds: float
    stages: tuple[VerifiedStage, ...]
    changed: tuple[str, ...]
    failure: Broken | None

    @property
    def verdict(self) -> str:
        """What came out, in one sentence."""
        return promise_words(self.holds, self.contract)

    @property
    def short(self) -> str:
        """The same in three words."""
        if not self.holds:
            return "Breaks its promise"
        return "Equal to stock" if self.contract == Contract.exact else "Keeps its promise"

    @property
    def extent(self) -> str:
        """How much was compared."""
        refused = f", {self.refused:,} of them refused by stock and by the fork alike" if self.refused else ""
        return (
            f"Level {self.level}, seed {self.seed}: {self.examples:,} examples, {self.requests:,} requests"
            f"{refused}, {self.images:,} images, {self.seconds:.0f} s."
        )

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Stage, times compared, and result."""
        return [(each.stage, f"{each.compared:,}", self._result(each)) for each in self.stages]

    def _result(self, each: VerifiedStage) -> str:
        breaches = self.failure.breaches if self.failure else ()
        broken = any(line.startswith(f"{each.stage}: ") for line in breaches)
        return stage_words(broken, each.differed, each.distance)

    @property
    def trouble(self) -> list[str]:
        """Everything that speaks against the fork, one line each."""
        lines = [f"The fork had been changed since apply: {', '.join(self.changed)}"] if self.changed else []
        if self.failure:
            lines += [f"Differs: {line}" for line in self.failure.breaches]
            lines += [f"Smallest case found: {line}" for line in self.failure.case]
            lines += (
                [] if self.failure.stable else ["Asked again, the same case was equal: it is not stable."]
            )
            lines += [f"Most likely from: {self.failure.culprit}"] if self.failure.culprit else []
        return lines


_LEVELS: TypeAdapter[dict[str, Verified]] = TypeAdapter(dict[str, Verified])


@dataclass(frozen=True)
class Evidence:
    """All of it.

    Attributes:
        verified: the last verification of each level.
        bench: the last benchmark.
        profiles: the last profile of each side.
        flames: the flame graph of each side, as SVG.
        changed: files of the fork that are not what `apply` wrote.
    """

    verified: tuple[Verified, ...] = ()
    bench: Bench | None = None
    profiles: Mapping[Side, Profile] = field(default_factory=dict)
    flames: Mapping[Side, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """What a reader must know before reading on; empty where all is as it was written."""
        if not self.changed:
            return ""
        return (
            f"Changed since apply: {', '.join(self.changed)}. What follows is what apply wrote; "
            "these changes are not in it."
        )


def evidence_of(fork: Fork) -> Evidence:
    """Reads what lies in the fork's folder.

    Raises:
        SourceError, UsageError: a file is there but cannot be read.
    """
    bench = bench_path(fork.path)
    profiles: dict[Side, Path] = {
        "stock": profile_path(fork.path, "stock"),
        "fork": profile_path(fork.path, "fork"),
    }
    flames = {side: path.with_suffix(".svg") for side, path in profiles.items()}
    return Evidence(
        verified=_verified(fork),
        bench=read_bench(bench) if bench.is_file() else None,
        profiles={side: read_profile(path) for side, path in profiles.items() if path.is_file()},
        flames={side: _text(path) for side, path in flames.items() if path.is_file()},
        changed=tuple(changed_since_apply(fork)),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise SourceError(f"cannot read {path}; `vlmopt profile` makes it anew") from None


def _verified(fork: Fork) -> tuple[Verified, ...]:
    path = fork.path / RESULT_NAME
    try:
        levels = _LEVELS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError):
        raise SourceError(
            f"{path} cannot be read; `vlmopt verify {fork.path}` writes it anew once it is removed"
        ) from None
    return tuple(levels.values())
