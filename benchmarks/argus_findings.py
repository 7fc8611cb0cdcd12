"""What the study says, in sentences made from its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

from argus_record import Run, Study

TITLES = {"float": "text", "bin": "bins", "codebook": "the codebook"}
"""What the formats are called in sentences."""
PUBLISHED = "bin"
"""The format that is published to converge fastest and to locate best in compact models."""

TOO_FEW = 0.1
"""Accuracy below which nothing is said of differences: a few lucky guesses would decide them."""


@dataclass(frozen=True)
class Format:
    """All seeds of one box format, over the same steps. `steps[i]` belongs to `values(...)[seed][i]`."""

    name: str
    runs: Sequence[Run]

    @property
    def steps(self) -> list[int]:
        return [point.step for point in self.runs[0].points]

    def values(self, what: str) -> list[list[float]]:
        """One of the numbers of `Point`, for each seed over the steps."""
        return [[getattr(point, what) for point in run.points] for run in self.runs]

    def last(self, what: str) -> list[float]:
        """At the end, for each seed."""
        return [values[-1] for values in self.values(what)]

    def means(self, what: str) -> list[float]:
        """Over the seeds, for each step."""
        return [mean(column) for column in zip(*self.values(what), strict=True)]

    def reaches(self, accuracy: float) -> float | None:
        """The step at which the mean accuracy reaches a value, in straight lines; None if it never does."""
        before = (0.0, 0.0)
        for point in zip(self.steps, self.means("accuracy"), strict=True):
            if point[1] >= accuracy:
                part = (accuracy - before[1]) / (point[1] - before[1]) if point[1] > before[1] else 1
                return before[0] + part * (point[0] - before[0])
            before = (float(point[0]), point[1])
        return None


def formats(study: Study) -> list[Format]:
    """Those that were trained, in the order in which the runs of the file name them."""
    found: dict[str, list[Run]] = {}
    for run in study.runs.values():
        if run.kind == "format":
            found.setdefault(run.arm, []).append(run)
    return [Format(name, sorted(found[name], key=lambda run: run.seed)) for name in TITLES if name in found]


def half_way(found: Sequence[Format]) -> float:
    """Half of the best final accuracy: by when it is reached, formats are said to converge faster."""
    return max(mean(each.last("accuracy")) for each in found) / 2


def findings(found: Sequence[Format]) -> list[str]:
    """Who locates best, who converges fastest, and what that says of what is published."""
    if len(found) < 2:
        return ["Only one format was trained, so there is nothing to compare."]
    located = sorted(found, key=lambda each: -mean(each.last("accuracy")))
    most = mean(located[0].last("accuracy"))
    if most < TOO_FEW:
        return [f"At most {most:.1%} was located within this budget: too little to compare formats by."]
    best = ", ".join(f"{TITLES[each.name]} {spread(each.last('accuracy'))}" for each in located)
    sentences = [
        f"At the end the accuracy at IoU 0.5 is: {best} (mean of {seeds(found)}, lowest to highest). "
        f"{_apart(located)}"
    ]
    half = half_way(found)
    speeds = {each.name: each.reaches(half) for each in found}
    order = sorted(found, key=lambda each: _rank(speeds[each.name]))
    words = ", ".join(f"{TITLES[each.name]} {_step(speeds[each.name])}" for each in order)
    sentences.append(f"Half of the best final accuracy, {half:.0%}, is reached at these steps: {words}.")
    return [*sentences, _against_published(found, speeds)]


def _apart(located: Sequence[Format]) -> str:
    """Whether the best format's seeds are all above those of the next."""
    first, second = located[:2]
    names = f"{TITLES[first.name]}", f"{TITLES[second.name]}"
    if len(first.runs) < 2:
        return "With one seed nothing can be said of chance."
    if _overlap(first, second):
        return f"The seeds of {names[0]} and {names[1]} overlap, so which is better is not decided."
    return f"Every seed of {names[0]} is above every seed of {names[1]}."


def _overlap(better: Format, other: Format) -> bool:
    """Whether some seed of the one that is better in the mean ends no higher than some seed of the other."""
    return min(better.last("accuracy")) <= max(other.last("accuracy"))


def _against_published(found: Sequence[Format], speeds: Mapping[str, float | None]) -> str:
    """What the numbers say of the published finding. A tie is no win for bins."""
    claim = "The published finding, that bins converge fastest and locate best in compact models,"
    if PUBLISHED not in speeds:
        return f"{claim} is not tested here: no bins were trained."
    finals = {each.name: each.last("accuracy") for each in found}
    fastest = min(speeds, key=lambda name: (_rank(speeds[name]), name == PUBLISHED))
    best = max(finals, key=lambda name: (mean(finals[name]), name != PUBLISHED))
    against = [f"{TITLES[fastest]} converges fastest"] if fastest != PUBLISHED else []
    against += [f"{TITLES[best]} locates best"] if best != PUBLISHED else []
    if len(against) == 2:
        return f"{claim} does not hold here: {' and '.join(against)}."
    if against:
        kept = "converge fastest" if fastest == PUBLISHED else "locate best"
        return f"{claim} holds here in one part: bins {kept}, but {against[0]}."
    bins = next(each for each in found if each.name == PUBLISHED)
    if len(bins.runs) > 1 and any(_overlap(bins, each) for each in found if each is not bins):
        return f"{claim} holds here in the means, but not for every seed."
    return f"{claim} holds here."


def size_findings(sizes: Mapping[str, tuple[Run, ...]], study: Study) -> list[str]:
    """What a larger model gains, and what it costs."""
    ordered = [name for name in study.latency if name in sizes]
    sentences = []
    for small, large in pairwise(ordered):
        gain = _final(sizes[large], "accuracy") - _final(sizes[small], "accuracy")
        closer = _final(sizes[large], "mean_iou") - _final(sizes[small], "mean_iou")
        cost = study.latency[large].answer.median / study.latency[small].answer.median
        sentences.append(
            f"From {small} to {large}: {100 * gain:+.1f} points at IoU 0.5, {closer:+.3f} of mean IoU, "
            f"{cost:.2f} times the time of an answer."
        )
    return sentences


def by_size(study: Study) -> dict[str, tuple[Run, ...]]:
    """The runs of each size, all with bins; the middle one's are those of the formats."""
    found: dict[str, list[Run]] = {"small": [], "tiny": [], "large": []}
    for run in study.runs.values():
        if run.kind == "size":
            found[run.arm].append(run)
        elif run.arm == PUBLISHED:
            found["tiny"].append(run)
    return {name: tuple(runs) for name, runs in found.items() if runs}


def _final(runs: Sequence[Run], what: str) -> float:
    return mean(getattr(run.points[-1], what) for run in runs)


def spread(values: Sequence[float]) -> str:
    """`61.0% (58.0 to 63.5)`."""
    middle = f"{mean(values):.1%}"
    return middle if len(values) < 2 else f"{middle} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def seeds(found: Sequence[Format]) -> str:
    """`3 seeds`."""
    counts = sorted({len(each.runs) for each in found})
    return f"{' or '.join(map(str, counts))} seed{'' if counts == [1] else 's'}"


def _rank(step: float | None) -> float:
    return float("inf") if step is None else step


def _step(step: float | None) -> str:
    return "never" if step is None else f"{step:.0f}"
