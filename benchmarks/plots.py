"""The pictures: stage bars, time to first token over sizes, throughput over concurrency, FP8's break-even."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import yaml

from vlmopt.measure.bench_file import FORK, STOCK, Bench, Measured, Side
from vlmopt.measure.stages import OTHER, stage_table
from vlmopt.runtime.fp8_cost import BUILTIN_COSTS, load_costs

COLOURS: dict[Side, str] = {"stock": "#9aa5b1", "fork": "#1f77b4", "switch": "#c28d3f"}
LAYERS = Path(__file__).parents[1] / "tests" / "fp8" / "layer_shapes.yaml"
plt.rcParams |= {
    "svg.hashsalt": "vlmopt",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def title_of(bench: Bench) -> str:
    """The name that people know a model by."""
    return bench.title.removesuffix("-Instruct")


def draw_host(benches: list[Bench], size: str, out: Path) -> None:
    """Processor call and bytes to the engine for one photograph: a pair of bars for each model."""
    shown = [(bench, point) for bench in benches if (point := bench.point(size)) and point.processor]
    figure, (calls, sent) = plt.subplots(1, 2, figsize=(9, 0.8 + 0.6 * len(shown)), sharey=True)
    for at, (_, point) in enumerate(shown):
        for shift, side in ((-0.2, STOCK), (0.2, FORK)):
            values = (1e3 * point.processor.sides[side].median, point.transfer[side].to_engine / 1e6)
            for axis, value in zip((calls, sent), values, strict=True):
                label = side if at == 0 else None
                axis.barh(at + shift, value, 0.38, color=COLOURS[side], label=label)
                axis.text(value, at + shift, f" {value:.3g}", va="center", fontsize=8)
    calls.set_xlabel("processor call, ms")
    sent.set_xlabel("sent to the engine, MB")
    for axis in (calls, sent):
        axis.margins(x=0.18)
    calls.set_yticks(range(len(shown)), [title_of(bench) for bench, _ in shown])
    calls.invert_yaxis()
    figure.legend(*calls.get_legend_handles_labels(), loc="upper right", ncols=2)
    save(figure, out, f"Host cost of one {size} JPEG, decode apart")


def draw_stages(benches: list[Bench], size: str, out: Path) -> None:
    """Where the time to first token goes: two stacked bars for each model."""
    shown = [(bench, point) for bench in benches if (point := bench.point(size)) and point.stages]
    figure, axis = plt.subplots(figsize=(9, 1.4 + 0.75 * len(shown)))
    titles = {stage.id: stage.title for stage in stage_table().stages} | {OTHER: "Other"}
    colours = dict(zip(titles, plt.get_cmap("tab20").colors, strict=False))
    drawn = set()
    for at, (_, point) in enumerate(shown):
        for shift, side in ((-0.2, STOCK), (0.2, FORK)):
            left = 0.0
            # In the order of a request's way; a JSON file may have lost it.
            for stage in (stage for stage in titles if stage in point.stages):
                width = 1e3 * point.stages[stage].sides[side].median
                label = None if stage in drawn else titles[stage]
                axis.barh(at + shift, width, 0.36, left=left, color=colours[stage], label=label)
                drawn.add(stage)
                left += width
            axis.text(left, at + shift, f" {side} {left:.0f}", va="center", fontsize=8)
    axis.set_yticks(range(len(shown)), [title_of(bench) for bench, _ in shown])
    axis.invert_yaxis()
    axis.margins(x=0.1)
    axis.set_xlabel("ms")
    axis.legend(loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=6, fontsize=8)
    save(figure, out, f"Stages until the first token, one {size} JPEG, CPU engine with shrunk towers")


def draw_first_token(benches: list[Bench], out: Path) -> None:
    """Time to first token over image sizes, a panel for each model."""
    figure = _panels(len(benches))
    for axis, bench in zip(figure.axes, benches, strict=True):
        places = [
            (point, found) for point in bench.points if point.images == 1 and (found := point.first_token)
        ]
        megapixels = [_pixels(point.size) / 1e6 for point, _ in places]
        for side, label in _sides(found for _, found in places):
            samples = [found.sides[side] for _, found in places]
            _line(axis, megapixels, samples, 1e3, side, label)
        axis.set(title=title_of(bench), xscale="log", yscale="log", xlabel="megapixels")
        axis.set_xticks(megapixels, [f"{each:.2g}" for each in megapixels])
        axis.minorticks_off()
    figure.axes[0].set_ylabel("time to first token, ms")
    figure.axes[0].legend()
    save(figure, out, "Time to first token over image sizes, quartiles shaded")


def draw_throughput(benches: list[Bench], size: str, out: Path) -> None:
    """Requests a second over concurrency, a panel for each model."""
    shown = [(bench, point) for bench in benches if (point := bench.point(size)) and point.served]
    figure = _panels(len(shown))
    for axis, (bench, point) in zip(figure.axes, shown, strict=True):
        at_once = sorted(point.served)
        for side, label in _sides(point.served[number].rate for number in at_once):
            samples = [point.served[number].rate.sides[side] for number in at_once]
            _line(axis, at_once, samples, 1, side, label)
        axis.set(title=title_of(bench), xscale="log", xlabel="requests at once")
        axis.set_xticks(at_once, at_once)
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
    figure.axes[0].set_ylabel("requests a second")
    figure.axes[0].legend()
    save(figure, out, f"OpenAI server, one {size} JPEG and one token a request, quartiles shaded")


def draw_fp8(out: Path) -> None:
    """What FP8 saves in a layer's product, over the layer's size, and what quantising its input costs."""
    costs = load_costs(BUILTIN_COSTS).default
    shapes = yaml.safe_load(LAYERS.read_text("utf-8"))
    figure, axis = plt.subplots(figsize=(9, 3.6))
    weights = np.geomspace(2e5, 1e9, 50)
    axis.plot(weights, weights / (costs.bandwidth_gb_s * 1e3), color="black", linewidth=1)
    axis.axhline(costs.activation_us, color="#c0392b", linewidth=1)
    axis.text(
        2.2e5,
        costs.activation_us * 1.12,
        f"published: quantising the input, {costs.activation_us:.2f} µs",
        color="#c0392b",
    )
    axis.axvline(costs.break_even_weights, color="#c0392b", linewidth=0.8, linestyle=":")
    axis.text(
        costs.break_even_weights * 1.1, 0.15, f"pays above {costs.break_even_weights / 1e6:.2f} M weights"
    )
    for verdict, colour, label in (
        ("bf16", COLOURS["stock"], "keeps bf16"),
        ("fp8", COLOURS["fork"], "becomes FP8"),
    ):
        layers = [shape for model in shapes[verdict].values() for shape in model]
        sizes = [inputs * outputs for inputs, outputs in layers]
        gains = [costs.gain_us(*layer) for layer in layers]
        axis.scatter(sizes, gains, color=colour, s=22, label=label, zorder=3)
    published = next(iter(shapes["bf16"].values()))
    mean = sum(inputs * outputs for inputs, outputs in published) / len(published)
    gain = costs.gain_us(round(mean), 1)
    axis.scatter([mean], [gain], marker="*", s=150, color="#c0392b", zorder=4)
    words = "published: products 1.1 times faster, yet\n533.28 → 499.08 tokens/s (256 M model, mean layer)"
    axis.annotate(words, (mean, gain), (4e6, 0.28), arrowprops={"arrowstyle": "-", "color": "#c0392b"})
    axis.set(
        xscale="log", yscale="log", xlabel="weights of a layer", ylabel="predicted gain of the product, µs"
    )
    axis.legend(loc="lower right")
    save(figure, out, f"Online FP8: gain and cost of a layer at decode, at {costs.bandwidth_gb_s:,.0f} GB/s")


def _panels(count: int) -> Any:
    figure, _ = plt.subplots(1, max(1, count), figsize=(2.4 * max(2, count), 3), squeeze=False)
    return figure


def _sides(measured: Iterator[Measured]) -> Iterator[tuple[Side, str]]:
    found = {side for each in measured for side in each.sides}
    names: dict[Side, str] = {"stock": "stock", "fork": "fork", "switch": "stock, switch off"}
    yield from ((side, name) for side, name in names.items() if side in found)


def _line(axis: Any, x: list[Any], samples: list[Any], scale: float, side: Side, label: str) -> None:
    axis.plot(
        x, [scale * each.median for each in samples], "o-", color=COLOURS[side], label=label, markersize=4
    )
    low, high = ([scale * getattr(each, end) for each in samples] for end in ("low", "high"))
    axis.fill_between(x, low, high, color=COLOURS[side], alpha=0.25, linewidth=0)


def _pixels(size: str) -> int:
    width, height = map(int, size.split("x"))
    return width * height


def save(figure: Any, out: Path, title: str) -> None:
    """Writes a figure with its title, the same bytes for the same figure, and closes it."""
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
