"""A benchmark on a terminal: a table for each kind of thing, and whether a second run would say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from vlmopt.measure.bench_file import SIDES, STOCK, Bench, Measured, Noise, Point, Ratio, Side
from vlmopt.report.measured import bytes_words, main_point, rate_words, ratio_words, seconds_words, setting
from vlmopt.report.terminal import columns

_SHOWN = 8
Row = list[str | Text]


def bench_page(bench: Bench) -> RenderableType:
    """Everything that was measured, what it was measured with, and how steady it was."""
    parts: list[RenderableType] = [Text(f"{bench.title} on vLLM {bench.vllm}", style="bold")]
    sides = sides_of(bench)
    for name, rows in _sections(bench, sides):
        if rows:
            head = [name, *sides, *(f"{side} / stock" for side in sides if side != STOCK)]
            parts += ["", columns(head, rows)]
    refused = [
        Text(f"{point.name}: stock refuses it: {point.refused}") for point in bench.points if point.refused
    ]
    if refused:
        parts += ["", *refused]
    return Group(*parts, "", *setting(bench), verdict(bench.noise))


def sides_of(bench: Bench) -> list[Side]:
    """The sides that were measured, stock first."""
    found = {side for point in bench.points for _, one in point.measured() for side in one.sides}
    return [side for side in SIDES if side in found]


def verdict(noise: Noise) -> Text:
    """Whether the ratios hold for another run, and if not, why."""
    if not noise.too_noisy:
        return Text(
            f"Steady: a second run gives ratios within {noise.limit:.0%} of these, 19 times of 20.",
            style="green",
        )
    why = []
    if noise.busy:
        why.append(f"Others took {noise.others:.0%} of it; at most {noise.others_limit:.0%} may")
    if noise.unsteady:
        some = "; ".join(noise.unsteady[:_SHOWN])
        more = len(noise.unsteady) - _SHOWN
        why.append(f"Unsteady: {some}{f'; and {more} more' if more > 0 else ''}")
    return Text(
        f"The machine was too noisy: ratios of a second run may differ by more than {noise.limit:.0%}. "
        f"{'. '.join(why)}.",
        style="bold yellow",
    )


def _sections(bench: Bench, sides: Sequence[Side]) -> Iterator[tuple[str, list[Row]]]:
    limit = bench.noise.limit
    served = [point for point in bench.points if not point.refused]

    def timed(what: str, measured: Measured, show: Callable[[Measured, Side], str]) -> Row:
        cells = [show(measured, side) if side in measured.sides else "" for side in sides]
        ratios = [_ratio(measured.ratios.get(side), limit) for side in sides if side != STOCK]
        return [what, *cells, *ratios]

    first = [(point, found) for point in served if (found := point.first_token)]
    yield "time to first token", [timed(point.name, found, _with_p95) for point, found in first]
    calls = [(point, found) for point in served if (found := point.processor)]
    yield "processor call", [timed(point.name, found, _seconds) for point, found in calls]
    for point in served:
        longer = [(number, found) for number, found in point.latency.items() if number != 1]
        yield (
            f"latency, {point.name}",
            [timed(f"{number} tokens", found, _with_p95) for number, found in longer],
        )
        rows = []
        for at_once, bursts in point.served.items():
            rows.append(timed(f"{at_once} at once", bursts.rate, _rate))
            rows.append(timed("  latency", bursts.latency, _with_p95))
        yield f"requests a second, {point.name}", rows
    main = main_point(bench)
    if main is not None:
        yield (
            f"stages, {main.name}",
            [timed(stage, found, _seconds) for stage, found in main.stages.items()],
        )
    yield "bytes to the engine", [_counts(each, "to_engine", sides, bytes_words) for each in served]
    yield (
        "bytes and copies to the device",
        [_copies(point, sides) for point in served if any(each.copies for each in point.transfer.values())],
    )
    yield "peak memory", [row for memory in bench.memory for row in _memory(memory.process, memory, sides)]


def _with_p95(measured: Measured, side: Side) -> str:
    sample = measured.sides[side]
    return f"{seconds_words(sample.median)} (p95 {seconds_words(sample.p95)})"


def _seconds(measured: Measured, side: Side) -> str:
    return seconds_words(measured.sides[side].median)


def _rate(measured: Measured, side: Side) -> str:
    return rate_words(measured.sides[side].median)


def _ratio(ratio: Ratio | None, limit: float) -> str | Text:
    if ratio is None:
        return ""
    steady = ratio.again is not None and ratio.again <= limit
    text = f"{ratio_words(ratio.value)} {spread_words(ratio)}".rstrip()
    return text if steady else Text(f"{text} ?", style="yellow")


def spread_words(ratio: Ratio) -> str:
    """How far the ratio of a second run may lie from this one; empty where nothing is known."""
    if ratio.again is None:
        return ""
    return f"±{ratio.again:.0%}" if ratio.again < 1 else "±100% or more"


def _counts(point: Point, name: str, sides: Sequence[Side], words: Callable[[float], str]) -> Row:
    values = {side: getattr(transfer, name) for side, transfer in point.transfer.items()}
    return [point.name, *_cells(values, sides, words)]


def _cells(
    values: Mapping[Side, int | None], sides: Sequence[Side], words: Callable[[float], str]
) -> list[str]:
    known = {side: value for side, value in values.items() if value is not None}
    stock = known.get(STOCK)
    cells = [words(known[side]) if side in known else "" for side in sides]
    return cells + [
        ratio_words(known[side] / stock) if stock and side in known else "" for side in sides if side != STOCK
    ]


def _copies(point: Point, sides: Sequence[Side]) -> Row:
    row = _counts(point, "to_device", sides, bytes_words)
    for column, side in enumerate(sides, 1):
        transfer = point.transfer.get(side)
        if transfer is not None and transfer.copies is not None:
            row[column] = f"{row[column]} in {transfer.copies}, {transfer.pinned} pinned"
    return row


def _memory(name: str, memory: object, sides: Sequence[Side]) -> Iterator[Row]:
    for what, attribute in ((name, "host"), ("  with the requests", "rise"), ("  on the device", "device")):
        values = getattr(memory, attribute)
        if values:
            yield [what, *_cells(values, sides, bytes_words)]
