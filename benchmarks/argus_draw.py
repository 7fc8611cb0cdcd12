"""Draws the study's figures, and writes the section "Study" of docs/argus.md.

    python benchmarks/argus_draw.py docs/figures/argus_study.json

The pictures go beside the JSON file, the section into argus.md above it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import argus_plots
from argus_findings import Format, by_size, findings, formats, half_way, size_findings, spread
from argus_record import Latency, Run, Spread, Study, load_study
from jinja2 import Environment, StrictUndefined

from vlmopt.errors import VlmoptError
from vlmopt.report.measured import seconds_words
from vlmopt.whole import write_whole

TEMPLATE = Path(__file__).with_name("argus_study.md.j2")
HEADING = "## Study"
_SECTION = re.compile(rf"^{HEADING}\n.*?(?=^## |\Z)", re.M | re.S)


def draw(results: Path) -> None:
    """All pictures and the section.

    Raises:
        UsageError: the file holds no study, or something cannot be written.
    """
    study = load_study(results)
    found, sizes = formats(study), by_size(study)
    if found:
        argus_plots.draw_formats(found, results.with_name("argus-formats.svg"))
    if study.latency and len(sizes) > 1:
        argus_plots.draw_sizes(sizes, study, results.with_name("argus-sizes.svg"))
    page = results.parent.parent / "argus.md"
    before = page.read_text("utf-8") if page.exists() else "# ArgusVLM\n"
    write_whole(page, with_section(before, section(study)))


def with_section(page: str, text: str) -> str:
    """A page with `text` in place of its section "Study", or after all else."""
    if _SECTION.search(page):
        return _SECTION.sub(lambda found: text + ("\n" if found.end() < len(page) else ""), page, count=1)
    return f"{page.rstrip()}\n\n{text}"


def section(study: Study) -> str:
    """The section, with its heading."""
    found, sizes = formats(study), by_size(study)
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        study=study,
        machine=study.machine,
        budget=study.budget,
        findings=findings(found) if found else [],
        over_steps=over_steps(found),
        finals=[final_row(each, found) for each in found],
        sizes=size_rows(sizes, study.latency),
        size_findings=size_findings(sizes, study),
        names=[each.name for each in found],
        tokens=next((each.tokens for each in study.latency.values()), 0),
        hours=sum(run.seconds or 0 for run in study.runs.values()) / 3600,
    )


def over_steps(found: Sequence[Format]) -> list[str]:
    """A row for each evaluated step: accuracy, mean IoU and parse failures of each format, means of seeds."""
    rows = []
    for at, step in enumerate(found[0].steps if found else []):
        cells = [str(step)]
        for each in found:
            accuracy, iou, failures = (each.means(what)[at] for what in argus_plots.PANELS)
            cells += [f"{accuracy:.1%}", f"{iou:.3f}", f"{failures:.1%}"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def final_row(one: Format, found: Sequence[Format]) -> str:
    """A format at the end, with its spread over the seeds."""
    reached = one.reaches(half_way(found))
    iou = one.last("mean_iou")
    cells = (
        one.name,
        f"{mean(run.box_tokens for run in one.runs):.1f}",
        f"{one.runs[0].parameters:,}",
        spread(one.last("accuracy")),
        f"{mean(iou):.3f} ({min(iou):.3f} to {max(iou):.3f})",
        spread(one.last("parse_failures")),
        f"{mean(run.losses[-1][1] for run in one.runs):.3f}",
        "never" if reached is None else f"{reached:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def size_rows(sizes: Mapping[str, Sequence[Run]], latency: Mapping[str, Latency]) -> list[str]:
    """A row for each size."""
    rows = []
    for name, runs in sizes.items():
        if name in latency:
            measured = latency[name]
            cells = (
                name,
                f"{measured.parameters:,}",
                f"{len(runs)}",
                spread([run.points[-1].accuracy for run in runs]),
                f"{mean(run.points[-1].mean_iou for run in runs):.3f}",
                timed(measured.first_token),
                timed(measured.answer),
            )
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def timed(found: Spread) -> str:
    """`12.3 ms (11.9 ms to 13.0 ms)`: median and quartiles."""
    return f"{seconds_words(found.median)} ({seconds_words(found.low)} to {seconds_words(found.high)})"


def main() -> None:
    """Draws."""
    parser = argparse.ArgumentParser(description="Draw ArgusVLM's study and write its section of argus.md.")
    parser.add_argument("results", type=Path)
    try:
        draw(parser.parse_args().results)
    except VlmoptError as error:
        sys.exit(f"argus_draw: {error}")


if __name__ == "__main__":
    main()
