"""The file of a benchmark, `DIR/measured/bench.json`: what was measured, with what, and how steady it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from vlmopt.errors import UsageError
from vlmopt.mistakes import first_mistake
from vlmopt.whole import write_whole

BENCH_NAME = "measured/bench.json"
STOCK: Final = "stock"
FORK: Final = "fork"
SWITCH: Final = "switch"
"""The sides. `switch` is stock with upstream's own switch turned the other way, where the model has one."""

Side = Literal["stock", "fork", "switch"]
SIDES: Final[tuple[Side, ...]] = (STOCK, FORK, SWITCH)


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Sample(_Facts):
    """Repeated measurements of one thing on one side: median, quartiles and 95th percentile."""

    count: int
    median: float
    low: float
    high: float
    p95: float


class Ratio(_Facts):
    """A side's median over stock's.

    `again` is how far the ratio of a second run may lie from this one, as a share of it, 19 times of 20,
    judged by the spread between the rounds of this run (`vlmopt.measure.spread`); None where a single round
    says nothing of it.
    """

    value: float
    again: float | None


class Measured(_Facts):
    """One thing on every side. `ratios` has all sides but stock."""

    unit: Literal["s", "requests/s"]
    sides: dict[Side, Sample]
    ratios: dict[Side, Ratio]


class Transfer(_Facts):
    """What one request moves on one side.

    Attributes:
        to_engine: bytes of the images' items on the wire to the engine process.
        to_device: bytes of the batch that the device gets; None where it was not seen.
        copies: how many copies bring them.
        pinned: how many of those come from page-locked memory.
    """

    to_engine: int
    to_device: int | None = None
    copies: int | None = None
    pinned: int | None = None


class Served(_Facts):
    """Bursts of one-token requests to the OpenAI server, so many at once."""

    rate: Measured
    latency: Measured


class Point(_Facts):
    """All that was measured with so many images of one size in a request.

    Attributes:
        size: such as ``640x480``, in pixels.
        images: how many of them in one request.
        prompt_tokens: of the whole prompt; None where stock refuses the request.
        refused: stock's reason, where it does not serve such a request.
        decode: seconds in which the images are decoded.
        processor: seconds of vLLM's processor call on the decoded images, by a clock around it.
        stages: seconds by stage, in the order of `vlmopt.measure.stages`. A stage has ratios where every side
            spends a hundredth of stock's time to first token on it, or more.
        transfer: bytes and copies, by side.
        latency: seconds until the last token, by the number of output tokens; 1 is the time to first token.
        served: by how many requests are under way at once.
    """

    size: str
    images: int
    prompt_tokens: int | None = None
    refused: str | None = None
    decode: Measured | None = None
    processor: Measured | None = None
    stages: dict[str, Measured] = {}
    transfer: dict[Side, Transfer] = {}
    latency: dict[int, Measured] = {}
    served: dict[int, Served] = {}

    @property
    def name(self) -> str:
        """The point in words, such as ``640x480`` or ``2 x 640x480``."""
        return self.size if self.images == 1 else f"{self.images} x {self.size}"

    @property
    def first_token(self) -> Measured | None:
        """Seconds until the first token, from encoded images on."""
        return self.latency.get(1)

    def measured(self) -> Iterator[tuple[str, Measured]]:
        """Everything that has a ratio, with a name."""
        if self.processor:
            yield f"{self.name}, processor call", self.processor
        for stage, seconds in self.stages.items():
            yield f"{self.name}, {stage}", seconds
        for tokens, seconds in self.latency.items():
            what = "time to first token" if tokens == 1 else f"latency at {tokens} tokens"
            yield f"{self.name}, {what}", seconds
        for concurrency, served in self.served.items():
            yield f"{self.name}, requests/s at concurrency {concurrency}", served.rate


class Memory(_Facts):
    """The most memory that one kind of process held, in bytes.

    Attributes:
        process: ``engine`` (the offline engine) or ``server`` (the API server with its engine process).
        host: the peak of resident memory, by side.
        rise: how much of it came with the requests, after the model was loaded.
        device: the peak of torch's allocations on an accelerator; empty on a CPU.
    """

    process: Literal["engine", "server"]
    host: dict[Side, int]
    rise: dict[Side, int]
    device: dict[Side, int] = {}


class Machine(_Facts):
    """Where it ran. `threads` is torch's, in each process; `accelerator` is None on a CPU."""

    cpu: str
    cores: int
    memory: int
    system: str
    device: str
    accelerator: str | None
    threads: int
    versions: dict[str, str]


class Noise(_Facts):
    """Whether a second run would give the same ratios.

    Attributes:
        limit: how far two runs may lie apart, as a share.
        unsteady: what may lie further apart, by name.
        others: the share of the machine's CPU time that went to processes which were not ours, or to other
            machines on the same host; None where the system does not say.
        others_limit: the share above which the machine counts as busy.
    """

    limit: float
    unsteady: list[str]
    others: float | None
    others_limit: float

    @property
    def busy(self) -> bool:
        """Whether others took so much of the machine that ratios may move with them."""
        return self.others is not None and self.others > self.others_limit

    @property
    def too_noisy(self) -> bool:
        """Whether the ratios of another run may differ by more than `limit`."""
        return self.busy or bool(self.unsteady)


class Bench(_Facts):
    """One benchmark of a fork against its stock.

    Attributes:
        model: the spec's name; `title` the name that people know it by.
        vllm: stock's version.
        recipes: those that the fork was made with.
        weights: which weights both sides ran with, in words.
        switch: what the side `switch` is, in words; None where the model has no such switch.
        settings: of both engines, beside vLLM's defaults.
        started: date and time, ISO 8601, UTC; `seconds` how long all of it took.
    """

    format: Literal[1] = 1
    model: str
    title: str
    vllm: str
    recipes: list[str]
    weights: str
    switch: str | None
    settings: dict[str, str]
    started: str
    seconds: float
    machine: Machine
    points: list[Point]
    memory: list[Memory]
    noise: Noise

    def point(self, size: str, images: int = 1) -> Point | None:
        """The point of that size, where it was measured."""
        return next((each for each in self.points if (each.size, each.images) == (size, images)), None)


def bench_path(fork: Path) -> Path:
    """Where a fork keeps its last benchmark."""
    return fork / BENCH_NAME


def read_bench(path: Path) -> Bench:
    """Reads a benchmark.

    Raises:
        UsageError: the file cannot be read, or is no benchmark.
    """
    try:
        return Bench.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}; `vlmopt bench DIR` makes it"
        ) from None
    except ValidationError as error:
        where, wrong = first_mistake(error)
        raise UsageError(
            f"{path} is no benchmark of this version of vlmopt: {where}: {wrong}; run `vlmopt bench`"
        ) from None


def write_bench(bench: Bench, path: Path) -> None:
    """Writes a benchmark, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    write_whole(path, bench.model_dump_json(indent=1) + "\n")
