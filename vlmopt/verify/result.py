"""What a verification found: what was compared, how much of it, and the first breach."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlmopt.verify import RESULT_NAME
from vlmopt.verify.compare import Comparison, Stage
from vlmopt.verify.promise import Promise
from vlmopt.whole import write_whole


@dataclass
class Tally:
    """Counts over all examples. `distance` is the largest seen, by stage, where numbers may differ."""

    examples: int = 0
    requests: int = 0
    images: int = 0
    refused: int = 0
    compared: Counter[Stage] = field(default_factory=Counter)
    differed: Counter[Stage] = field(default_factory=Counter)
    distance: dict[Stage, float] = field(default_factory=dict)

    def add(self, comparison: Comparison, images: int) -> None:
        """Takes in one example that kept the promise."""
        self.examples += 1
        self.requests += comparison.requests
        self.images += images
        self.refused += comparison.refused
        self.compared.update(comparison.compared)
        for each in comparison.differences:
            self.differed[each.stage] += 1
            if each.distance is not None:
                self.distance[each.stage] = max(self.distance.get(each.stage, 0.0), each.distance)


@dataclass(frozen=True)
class Failure:
    """The smallest failing case that was found.

    Attributes:
        breaches: how the two sides differ, one line each.
        case: the case in words.
        culprit: the step of the fork with which the breach begins; None where it could not be found.
        stable: False when the case broke nothing when it was asked again.
        folder: where the case was written, for `--replay`.
    """

    breaches: tuple[str, ...]
    case: tuple[str, ...]
    culprit: str | None
    stable: bool
    folder: Path | None


@dataclass(frozen=True)
class Verification:
    """The result of one `vlmopt verify`. `changed` are files of the fork that `apply` did not write so."""

    fork: Path
    model: str
    vllm: str
    level: str
    seed: int
    promise: Promise
    tally: Tally
    seconds: float
    changed: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def holds(self) -> bool:
        """Whether the fork keeps its promise on every example."""
        return self.failure is None

    def to_object(self) -> dict[str, Any]:
        """The JSON object of `verify --json`; described in docs/cli.md."""
        tally, failure = self.tally, self.failure
        return {
            "fork": str(self.fork),
            "model": self.model,
            "vllm": self.vllm,
            "level": self.level,
            "seed": self.seed,
            "contract": self.promise.contract.value,
            "bound": self.promise.bound,
            "holds": self.holds,
            "examples": tally.examples,
            "requests": tally.requests,
            "images": tally.images,
            "refused": tally.refused,
            "seconds": round(self.seconds, 1),
            "stages": [
                {
                    "stage": stage.value,
                    "compared": tally.compared[stage],
                    "differed": tally.differed[stage],
                    "distance": tally.distance.get(stage),
                }
                for stage in Stage
                if tally.compared[stage] or tally.differed[stage]
            ],
            "changed": list(self.changed),
            "failure": failure
            and {
                "breaches": list(failure.breaches),
                "case": list(failure.case),
                "culprit": failure.culprit,
                "stable": failure.stable,
                "folder": str(failure.folder) if failure.folder else None,
            },
        }


def save(result: Verification) -> None:
    """Keeps the result in the fork, beside those of other levels, for the review.

    Raises:
        UsageError: the fork's folder cannot be written.
    """
    path = result.fork / RESULT_NAME
    try:
        kept = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    kept[result.level] = result.to_object()
    write_whole(path, json.dumps(kept, indent=2, sort_keys=True) + "\n")
