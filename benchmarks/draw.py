"""Draws the figures of the documentation from what collect.py measured.

    python benchmarks/draw.py docs/figures/results.json

Writes host.svg (one image of 640x480), host-by-size.svg and figures.md beside and above the JSON file.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import yaml
from common import ROOT, load_model

STOCK, FORK = "#9aa5b1", "#1f77b4"
PHOTO = "640x480"
Rows = list[dict[str, Any]]


def title_of(name: str) -> str:
    """The name that people know a model by."""
    return str(load_model(name).title.removesuffix("-Instruct"))


def row_of(rows: Rows, size: str) -> dict[str, Any]:
    return next(row for row in rows if row["size"] == size)


def draw_one_size(models: dict[str, Any], out: Path) -> None:
    """Processor call and bytes for one photograph: a pair of bars for each model."""
    names = list(models)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, (what, unit) in zip(axes, {"processor {} ms": "ms", "sent {} MB": "MB"}.items(), strict=True):
        for at, name in enumerate(names):
            row = row_of(models[name]["host"], PHOTO)
            for shift, side, colour in ((-0.2, "stock", STOCK), (0.2, "fork", FORK)):
                value = row[what.format(side)]
                label = side if at == 0 else None
                axis.barh(at + shift, value, 0.38, color=colour, label=label)
                axis.text(value, at + shift, f" {value:.3g}", va="center", fontsize=8)
        axis.set_xlabel(f"{'processor call' if unit == 'ms' else 'sent to the engine'}, {unit}")
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), [title_of(name) for name in names])
    axes[0].invert_yaxis()
    axes[1].legend(frameon=False, loc="lower right")
    figure.suptitle(f"Host cost of one {PHOTO} JPEG, decode apart", fontsize=11)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def draw_by_size(models: dict[str, Any], out: Path) -> None:
    """The fork's share of stock's processor call and time to first token, over image sizes."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, program, label in (
        (axes[0], "host", "processor call"),
        (axes[1], "ttft", "time to first token, CPU engine"),
    ):
        for name, results in models.items():
            rows = [row for row in results[program] if "ratio" in row]
            axis.plot(
                [row["size"] for row in rows], [row["ratio"] for row in rows], "o-", label=title_of(name)
            )
        axis.axhline(1, color="black", linewidth=0.6)
        axis.set_title(label, fontsize=10)
        axis.tick_params(axis="x", rotation=30, labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("fork / stock")
    axes[0].set_ylim(bottom=0)
    axes[1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def table(models: dict[str, Any], program: str, columns: dict[str, str]) -> str:
    """Rows of all models as a Markdown table; `columns` maps a heading to a key."""
    lines = [f"| model | image | {' | '.join(columns)} |", f"| --- | --- |{' ---: |' * len(columns)}"]
    for name, results in models.items():
        for row in results[program]:
            if "ratio" in row:
                cells = " | ".join(f"{row[key]:.3g}" for key in columns.values())
                lines.append(f"| {title_of(name)} | {row['size']} | {cells} |")
    return "\n".join(lines)


def many_sizes(models: dict[str, Any]) -> bool:
    """Whether more than one image size was measured."""
    return len({row["size"] for results in models.values() for row in results["host"]}) > 1


def page(results: dict[str, Any]) -> str:
    """The page of figures."""
    machine, models = results["machine"], results["models"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    target = yaml.safe_load((ROOT / "benchmarks" / "targets.yaml").read_text("utf-8"))
    goals = []
    for goal in (goal for goal in target if goal["model"] in models):
        row = row_of(models[goal["model"]][goal["program"]], PHOTO)
        goals.append(
            f"| {title_of(goal['model'])} | {goal['what']} | {goal['at_most']:.3g} | {row[goal['key']]:.3g} |"
        )
    host = {
        "stock ms": "processor stock ms",
        "fork ms": "processor fork ms",
        "ratio": "ratio",
        "stock MB": "sent stock MB",
        "fork MB": "sent fork MB",
        "ratio of bytes": "sent ratio",
    }
    first = {"stock ms": "stock ms", "fork ms": "fork ms", "ratio": "ratio"}
    by_size = "![Ratios over image sizes](figures/host-by-size.svg)\n\n" if many_sizes(models) else ""
    return f"""# Figures

Stock and fork alternate in one run on the same machine; medians; ratios are fork over stock. Measured on
{machine["date"]} on {machine["cpu"]}, no GPU, one thread an engine:
{versions}.

Weights are dummies and towers are shrunk (hidden size 32 to 64, one layer), so that the time to first token
is the host's and the rebuild's. Here the rebuild of an image also runs on the CPU, in the engine process; it
is part of the time to first token and not of the processor call.

![Host cost of one image](figures/host.svg)

{by_size}Make them anew with `python benchmarks/collect.py docs/figures/results.json`, then
`python benchmarks/draw.py docs/figures/results.json`.

## What was aimed at, {PHOTO}

| model | what | at most | measured |
| --- | --- | ---: | ---: |
{chr(10).join(goals)}

## Processor call and bytes to the engine

{table(models, "host", host)}

## Time to first token on the CPU engine

{table(models, "ttft", first)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of the documentation.")
    parser.add_argument("results", type=Path)
    results_file = parser.parse_args().results
    results = json.loads(results_file.read_text("utf-8"))
    plt.rcParams["svg.hashsalt"] = "vlmopt"
    draw_one_size(results["models"], results_file.with_name("host.svg"))
    if many_sizes(results["models"]):
        draw_by_size(results["models"], results_file.with_name("host-by-size.svg"))
    (results_file.parents[1] / "figures.md").write_text(page(results), "utf-8")


if __name__ == "__main__":
    main()
