"""The pictures of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import matplotlib.pyplot as plt
from argus_findings import Format
from argus_record import Run, Study
from matplotlib.ticker import PercentFormatter
from plots import save

COLOURS = {"float": "#9aa5b1", "bin": "#1f77b4", "codebook": "#c28d3f"}
PANELS = {
    "accuracy": "accuracy at IoU 0.5",
    "mean_iou": "mean IoU",
    "parse_failures": "answers without a box",
}


def draw_formats(found: Sequence[Format], out: Path) -> None:
    """Accuracy, mean IoU and parse failures over the steps: a line for each format, its seeds shaded."""
    figure, axes = plt.subplots(1, len(PANELS), figsize=(9, 3.2))
    for axis, (what, label) in zip(axes, PANELS.items(), strict=True):
        for each in found:
            columns = list(zip(*each.values(what), strict=True))
            axis.plot(
                *(each.steps, each.means(what), "o-"),
                color=COLOURS[each.name],
                label=each.name,
                markersize=3.5,
            )
            axis.fill_between(
                *(each.steps, list(map(min, columns)), list(map(max, columns))),
                color=COLOURS[each.name],
                alpha=0.25,
                linewidth=0,
            )
        axis.set(title=label, xlabel="steps", ylim=(0, None), xlim=(0, None))
        if what != "mean_iou":
            axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes[0].legend()
    save(figure, out, "Box formats: grounding on held-out scenes, mean of the seeds, all of them shaded")


def draw_sizes(sizes: Mapping[str, Sequence[Run]], study: Study, out: Path) -> None:
    """Accuracy over the time of an answer: a point for each size."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True)
    names = [name for name in study.latency if name in sizes]
    times = [1e3 * study.latency[name].answer.median for name in names]
    for axis, what in zip(axes, ("accuracy", "mean_iou"), strict=True):
        finals = [[getattr(run.points[-1], what) for run in sizes[name]] for name in names]
        axis.margins(x=0.25, y=0.1)
        _points(axis, times, finals)
        for name, time, values in zip(names, times, finals, strict=True):
            words = f"{name}, {study.latency[name].parameters / 1e6:.2g} M"
            axis.annotate(words, (time, mean(values)), (6, -11), textcoords="offset points", fontsize=8)
        axis.set(
            title=PANELS[what], xlabel="full answer about one picture, ms", ylim=(0, None), xlim=(0, None)
        )
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    save(
        figure,
        out,
        "Language models of three sizes, boxes as bins: grounding on held-out scenes over latency",
    )


def _points(axis: Any, times: Sequence[float], finals: Sequence[Sequence[float]]) -> None:
    """The mean of the seeds, with a bar from the lowest to the highest."""
    means = [mean(values) for values in finals]
    below = [middle - min(values) for middle, values in zip(means, finals, strict=True)]
    above = [max(values) - middle for middle, values in zip(means, finals, strict=True)]
    axis.errorbar(times, means, (below, above), fmt="o-", color=COLOURS["bin"], markersize=5, capsize=3)
