"""Draws the figures of the documentation from what `vlmopt bench --json` printed, one object a model.

    python benchmarks/draw.py docs/figures/results.json

Writes the pictures beside the JSON file, figures.md above it, and the README's sentence of figures. What was
measured for the aims lies in aims.json beside the JSON file.
"""

import argparse
import json
import re
import textwrap
from pathlib import Path

import plots
import yaml
from jinja2 import Environment, StrictUndefined

from vlmopt.measure.bench_file import FORK, STOCK, Bench, Measured, Ratio
from vlmopt.report.bench import spread_words, verdict
from vlmopt.report.measured import bytes_words, noise_words, seconds_words

PHOTO = "640x480"
AIMS = "aims.json"
TARGETS = Path(__file__).with_name("targets.yaml")
PAGE = Path(__file__).with_name("figures.md.j2")


def benches_of(results_file: Path) -> list[Bench]:
    """What was measured, by model; nothing where there is no such file."""
    if not results_file.exists():
        return []
    results = json.loads(results_file.read_text("utf-8"))
    return [Bench.model_validate(each) for _, each in sorted(results.items())]


def draw(results_file: Path) -> None:
    """All pictures and the page."""
    benches, aims = benches_of(results_file), benches_of(results_file.with_name(AIMS))
    folder = results_file.parent
    plots.draw_host(benches, PHOTO, folder / "host.svg")
    plots.draw_stages(benches, PHOTO, folder / "stages.svg")
    plots.draw_first_token(benches, folder / "first-token.svg")
    plots.draw_throughput(benches, PHOTO, folder / "throughput.svg")
    plots.draw_fp8(folder / "fp8.svg")
    (folder.parent / "figures.md").write_text(page(benches, aims), "utf-8")
    readme = folder.parent.parent / "README.md"
    if readme.exists():
        readme.write_text(with_headline(readme.read_text("utf-8"), benches), "utf-8")


def ratio(bench: Bench, what: str) -> Ratio | None:
    """The fork's share of stock's, of one of the things in targets.yaml, for one 640x480 picture."""
    point = bench.point(PHOTO)
    if point is None or point.refused:
        return None
    if what == "bytes to the engine":
        return Ratio(value=point.transfer[FORK].to_engine / point.transfer[STOCK].to_engine, again=0.0)
    if what.startswith("requests a second"):
        served = point.served.get(int(what.split()[-1]))
        return served.rate.ratios[FORK] if served else None
    found = point.processor if what == "processor call" else point.first_token
    return found.ratios[FORK] if found else None


def headline(benches: list[Bench]) -> str:
    """What the README says: the ratios of the models that something is aimed at for."""
    aimed = yaml.safe_load(TARGETS.read_text("utf-8"))["config"]
    named = [bench for model in aimed for bench in benches if bench.model == model]
    calls, waits = (
        [(found.value, plots.title_of(bench)) for bench in named if (found := ratio(bench, what)) is not None]
        for what in ("processor call", "time to first token")
    )
    return (
        f"For one {PHOTO} photograph the processor call takes, of stock's time, "
        f"{' and '.join(f'1/{1 / share:.0f} on {title}' for share, title in calls)}, "
        "and the time to first token of the CPU engine with shrunk towers falls to "
        f"{' and '.join(f'{share:.2f}' for share, _ in waits)} of stock's ([figures](docs/figures.md))."
    )


def with_headline(readme: str, benches: list[Bench]) -> str:
    """The README with the paragraph of figures made anew."""
    made = textwrap.fill(headline(benches), 140, break_long_words=False, break_on_hyphens=False)
    return re.sub(rf"^For one {PHOTO} photograph .*?(?=\n\n)", lambda _: made, readme, flags=re.S | re.M)


def goals(benches: list[Bench]) -> list[str]:
    """What was aimed at, and what was measured."""
    rows = []
    for goal in yaml.safe_load(TARGETS.read_text("utf-8"))["goals"]:
        bench = next((each for each in benches if each.model == goal["model"]), None)
        found = ratio(bench, goal["what"]) if bench else None
        if bench and found is not None:
            aim = (
                f"at most {goal['at_most']:.3g}" if "at_most" in goal else f"at least {goal['at_least']:.3g}"
            )
            words = f"{found.value:.3g} {spread_words(found)}" if found.again else f"{found.value:.3g}"
            rows.append(f"| {plots.title_of(bench)} | {goal['what']} | {aim} | {words} |")
    return rows


def steadiness(benches: list[Bench]) -> list[str]:
    """What each run says of its own noise."""
    return [
        f"- {plots.title_of(bench)}: {bench.seconds:.0f} s. "
        f"{' '.join(noise_words(bench)) or verdict(bench.noise).plain}"
        for bench in benches
    ]


def timed(found: Measured) -> str:
    """Stock's median, the fork's, and the ratio with its spread."""
    share = found.ratios[FORK]
    sides = (seconds_words(found.sides[side].median) for side in (STOCK, FORK))
    return f"{' | '.join(sides)} | {share.value:.3g} {spread_words(share)}"


def table(benches: list[Bench], what: str) -> list[str]:
    """A row for each model and place: of the processor call with bytes, or of the time to first token."""
    rows = []
    for bench in benches:
        for point in bench.points:
            found = point.processor if what == "processor" else point.first_token
            if found is None:
                continue
            row = f"| {plots.title_of(bench)} | {point.name} | {timed(found)} |"
            if what == "processor":
                sent = [point.transfer[side].to_engine for side in (STOCK, FORK)]
                row += f" {bytes_words(sent[0])} | {bytes_words(sent[1])} | {sent[1] / sent[0]:.3g} |"
            rows.append(row)
    return rows


def rates(benches: list[Bench]) -> list[str]:
    """A row for each model and concurrency."""
    rows = []
    for bench in benches:
        for point in bench.points:
            for at_once, served in sorted(point.served.items()):
                share = served.rate.ratios[FORK]
                values = " | ".join(f"{served.rate.sides[side].median:.3g}" for side in (STOCK, FORK))
                what = f"{plots.title_of(bench)} | {point.name} | {at_once}"
                rows.append(f"| {what} | {values} | {share.value:.3g} {spread_words(share)} |")
    return rows


def refusals(benches: list[Bench]) -> list[str]:
    """What stock does not serve."""
    return [
        f"{plots.title_of(bench)} {point.name}"
        for bench in benches
        for point in bench.points
        if point.refused
    ]


def page(benches: list[Bench], aims: list[Bench]) -> str:
    """The page of figures. `aims`: what was measured for the aims."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(PAGE.read_text("utf-8")).render(
        bench=benches[0],
        machine=benches[0].machine,
        photo=PHOTO,
        runs=steadiness(benches),
        aims=aims[0] if aims else None,
        aims_runs=steadiness(aims),
        goals=goals(aims),
        processor=table(benches, "processor"),
        refused=refusals(benches),
        first_token=table(benches, "first token"),
        rates=rates(benches),
    )


def main() -> None:
    """Draws."""
    parser = argparse.ArgumentParser(description="Draw the figures of the documentation.")
    parser.add_argument("results", type=Path)
    draw(parser.parse_args().results)


if __name__ == "__main__":
    main()
