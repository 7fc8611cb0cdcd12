"""A benchmark in words and numbers, the same on a terminal, in `report.md` and on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vlmopt.measure.bench_file import FORK, STOCK, Bench, Measured, Point, Side
from vlmopt.measure.profile_file import Profile
from vlmopt.measure.stages import OTHER, stage_table
from vlmopt.report.evidence import Evidence

MAIN_SIZE = "640x480"
_MOVED = {"to_engine": "bytes to the engine", "to_device": "bytes to the device", "copies": "copies"}
_SIDES: tuple[Side, ...] = ("stock", "fork", "switch")
_PLENTY = 6  # names that a sentence takes


@dataclass(frozen=True)
class Row:
    """One thing on every side. `values` and `ratios` are words; `medians` are what bars are drawn from."""

    what: str
    values: dict[Side, str]
    ratios: dict[Side, str]
    medians: dict[Side, float]

    @property
    def cells(self) -> list[str]:
        """What, then each side's value, then the ratio of each side but stock."""
        return [self.what, *self.values.values(), *self.ratios.values()]


@dataclass(frozen=True)
class Table:
    """What was measured of one kind of request, or of one kind of process."""

    name: str
    sides: tuple[Side, ...]
    stages: tuple[Row, ...]
    rows: tuple[Row, ...]
    refused: str = ""

    def cells(self, row: Row) -> list[tuple[str, str]]:
        """The cells of a row after its first, each with the head of its column."""
        return list(zip(self.head[1:], row.cells[1:], strict=True))

    @property
    def head(self) -> list[str]:
        return ["", *self.sides, *(f"{side} / stock" for side in _compared(self.sides))]


@dataclass(frozen=True)
class Headline:
    """One figure that counts, what it is a figure of, and where it comes from."""

    figure: str
    what: str
    source: str

    def __str__(self) -> str:
        return f"{self.figure} {self.what}: {self.source}."


def stage_titles() -> dict[str, str]:
    """What people call a stage, by its id."""
    return {stage.id: stage.title for stage in stage_table().stages} | {OTHER: "Other"}


def profile_tables(profiles: Mapping[Side, Profile]) -> list[Table]:
    """Where the time before the first token went: both sides in one table, where both were asked the same."""
    asked: dict[str, list[Side]] = {}
    for side, profile in profiles.items():
        asked.setdefault(f"profile, {profile.engine}, {profile.images}", []).append(side)
    return [_profile_table(name, tuple(sides), profiles) for name, sides in asked.items()]


def _profile_table(name: str, sides: tuple[Side, ...], profiles: Mapping[Side, Profile]) -> Table:
    titles = {stage.id: stage.title for side in sides for stage in profiles[side].stages if stage.seen}
    seconds = {side: {stage.id: stage.seconds.median for stage in profiles[side].stages} for side in sides}
    rows = [
        _counted(title, {side: seconds[side].get(stage) for side in sides}, sides, seconds_words)
        for stage, title in titles.items()
    ]
    clock = {side: profiles[side].clock.median for side in sides}
    whole = _counted("time to first token", clock, sides, seconds_words)
    return Table(name, sides, tuple(rows), (whole,))


def all_tables(evidence: Evidence) -> list[Table]:
    """Every table of what was measured: the benchmark, then the profiles."""
    return [*(tables(evidence.bench) if evidence.bench else []), *profile_tables(evidence.profiles)]


def flame_words(side: Side) -> str:
    """Where a flame graph lies, for those who cannot see it here."""
    return f"Flame graph of {side}: FORK/measured/profile-{side}.svg"


def main_point(bench: Bench) -> Point | None:
    """The request that speaks for all: one picture of 640x480 pixels, or else the first that was served."""
    point = bench.point(MAIN_SIZE)
    if point is not None and not point.refused:
        return point
    return next((each for each in bench.points if not each.refused), None)


def headlines(bench: Bench) -> list[Headline]:
    """What a person wants to know first."""
    point = main_point(bench)
    if point is None:
        return []
    found = [
        Headline(
            ratio_words(took.ratios[FORK].value),
            f"of stock's {what}",
            f"{seconds_words(took.sides[STOCK].median)} to {seconds_words(took.sides[FORK].median)} "
            f"({point.name})",
        )
        for what, took in (("time to first token", point.first_token), ("processor call", point.processor))
        if took is not None and FORK in took.ratios
    ]
    most = max(point.served, default=None)
    if most is not None and FORK in point.served[most].rate.ratios:
        rate = point.served[most].rate
        found.append(
            Headline(
                f"{rate.ratios[FORK].value:.2f}",
                "times stock's requests a second",
                f"{rate_words(rate.sides[STOCK].median)} to {rate_words(rate.sides[FORK].median)}, "
                f"{most} at once ({point.name})",
            )
        )
    return found


def setting(bench: Bench) -> list[str]:
    """What it ran on and with."""
    machine = bench.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    where = machine.accelerator or machine.device
    threads = f"{machine.threads} thread{'' if machine.threads == 1 else 's'}"
    lines = [
        f"Measured {bench.started} in {bench.seconds:.0f} s on {machine.cpu}, {machine.cores} cores, "
        f"{bytes_words(machine.memory)} of memory, {threads}, {where}; {machine.system}.",
        f"Versions: {versions}. Weights: {bench.weights}.",
    ]
    if bench.settings:
        lines.append(f"Settings: {', '.join(f'{name} {value}' for name, value in bench.settings.items())}.")
    if bench.switch:
        lines.append(f"The side switch is {bench.switch}.")
    return lines


def noise_words(bench: Bench) -> list[str]:
    """How far the ratios of another run may lie from these, and of what; nothing where they are steady."""
    noise = bench.noise
    if not noise.too_noisy:
        return []
    some = "; ".join(noise.unsteady[:_PLENTY])
    more = f" and {len(noise.unsteady) - _PLENTY} more" if len(noise.unsteady) > _PLENTY else ""
    lines = [f"Too noisy: ratios of another run may differ by more than {noise.limit:.0%}."]
    lines += [f"Others took {noise.others:.0%} of the machine."] if noise.busy else []
    return [*lines, f"Unsteady: {some}{more}."] if some else lines


def tables(bench: Bench) -> list[Table]:
    """Everything that was measured, the main request first."""
    main = main_point(bench)
    points = sorted(bench.points, key=lambda point: point is not main)
    return [*(_of_point(bench, point) for point in points), *_memory(bench)]


def _of_point(bench: Bench, point: Point) -> Table:
    sides = _sides(bench)
    if point.refused:
        return Table(point.name, sides, (), (), point.refused)
    titles = stage_titles()
    stages = tuple(
        _row(titles.get(stage, stage), measured, sides) for stage, measured in point.stages.items()
    )
    return Table(point.name, sides, stages, tuple(_other_rows(point, sides)))


def _other_rows(point: Point, sides: tuple[Side, ...]) -> Iterator[Row]:
    if point.decode:
        yield _row("decode", point.decode, sides)
    if point.processor:
        yield _row("processor call", point.processor, sides)
    for tokens, latency in sorted(point.latency.items()):
        yield _row("time to first token" if tokens == 1 else f"latency, {tokens} tokens", latency, sides)
    for many, served in sorted(point.served.items()):
        yield _row(f"requests a second, {many} at once", served.rate, sides)
        yield _row(f"latency of a request, {many} at once", served.latency, sides)
    for name, what in _MOVED.items():
        counts = {side: getattr(transfer, name) for side, transfer in point.transfer.items()}
        words = _count_words if name == "copies" else bytes_words
        if any(count is not None for count in counts.values()):
            yield _counted(what, counts, sides, words)


def _memory(bench: Bench) -> list[Table]:
    sides = _sides(bench)
    found = []
    for each in bench.memory:
        rows = [_counted("peak resident memory", dict(each.host), sides, bytes_words)]
        rows += [_counted("of it with the requests", dict(each.rise), sides, bytes_words)]
        if each.device:
            rows.append(_counted("peak on the device", dict(each.device), sides, bytes_words))
        found.append(Table(f"memory, {each.process}", sides, (), tuple(rows)))
    return found


def _sides(bench: Bench) -> tuple[Side, ...]:
    seen = {side for point in bench.points for _, one in point.measured() for side in one.sides}
    return tuple(side for side in _SIDES if side in seen)


def _compared(sides: Sequence[Side]) -> list[Side]:
    """The sides that a ratio can be of: all but stock, where stock was measured."""
    return [side for side in sides if side != STOCK] if STOCK in sides else []


def _row(what: str, measured: Measured, sides: tuple[Side, ...]) -> Row:
    words = seconds_words if measured.unit == "s" else rate_words
    medians = {side: sample.median for side, sample in measured.sides.items()}
    return Row(
        what,
        {side: words(medians[side]) if side in medians else "" for side in sides},
        {
            side: ratio_words(measured.ratios[side].value) if side in measured.ratios else ""
            for side in _compared(sides)
        },
        medians,
    )


def _counted(
    what: str,
    counts: Mapping[Side, float | None],
    sides: tuple[Side, ...],
    words: Callable[[float], str],
) -> Row:
    """A row of plain numbers; None where a side's is not known."""
    known: dict[Side, float] = {side: count for side, count in counts.items() if count is not None}
    stock = known.get(STOCK)
    return Row(
        what,
        {side: words(known[side]) if side in known else "" for side in sides},
        {
            side: ratio_words(known[side] / stock) if stock and side in known else ""
            for side in _compared(sides)
        },
        known,
    )


def ratio_words(value: float) -> str:
    """A share of stock's: ``0.41``, or ``1/38`` where it is small."""
    return f"1/{1 / value:.0f}" if 0 < value < 0.1 else f"{value:.2f}"


def seconds_words(value: float) -> str:
    """Three digits, in milliseconds below ten seconds."""
    return f"{_digits(value)} s" if value >= 10 else f"{_digits(value * 1e3)} ms"


def rate_words(value: float) -> str:
    return f"{_digits(value)} /s"


def _count_words(value: float) -> str:
    return f"{value:,.0f}"


def bytes_words(value: float) -> str:
    """In powers of ten, as disks have them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{_digits(value / size)} {unit}"
    return f"{value:.0f} B"


def _digits(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
