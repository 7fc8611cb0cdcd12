"""The file of the study: what was trained, with what, and how well it answered on the way."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from vlmopt.errors import UsageError
from vlmopt.measure.bench_file import Machine
from vlmopt.mistakes import first_mistake
from vlmopt.whole import write_whole


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Budget(_Facts):
    """What every run of a study has in common.

    Attributes:
        steps, batch: so many steps of so many pictures.
        threads: of torch, in each run.
        points: how many times a model is evaluated on the way.
        questions: groundings on held-out scenes, at each of these times.
    """

    steps: int
    batch: int
    threads: int
    points: int
    questions: int

    def evaluated(self) -> list[int]:
        """The steps after which a model is evaluated; the last is the end."""
        count = min(self.points, self.steps)
        return [round(self.steps * point / count) for point in range(1, count + 1)]


class Point(_Facts):
    """How well a model answers after so many steps.

    Attributes:
        accuracy: the share of groundings with an IoU of 0.5 or more; what cannot be parsed is wrong.
        mean_iou: over all groundings, 0 for what cannot be parsed.
        parse_failures: the share of groundings that hold no box.
        seconds: that the evaluation took.
    """

    step: int
    accuracy: float
    mean_iou: float
    parse_failures: float
    seconds: float


class Run(_Facts):
    """One training run.

    Attributes:
        kind: `format` or `size`: which comparison it is of. The bins of the formats are also the middle size.
        arm: the format's or the size's name.
        parameters: of the model, counted once where embeddings are shared.
        box_tokens: tokens of a box in the answer, brackets included: the mean over the held-out groundings.
        losses: (step, mean loss since the last one).
        seconds: with the evaluations; None where it was broken off and gone on with.
        command: what would train the same model, without the evaluations.
    """

    kind: str
    arm: str
    seed: int
    parameters: int
    box_tokens: float
    points: tuple[Point, ...]
    losses: tuple[tuple[int, float], ...]
    seconds: float | None
    command: str


class Spread(_Facts):
    """Median and quartiles, in seconds."""

    median: float
    low: float
    high: float


class Latency(_Facts):
    """How long a model of one size takes for one picture, processor included.

    Attributes:
        tokens: of the full answer.
        repeats: measurements, one after the other with the other sizes.
    """

    parameters: int
    tokens: int
    repeats: int
    first_token: Spread
    answer: Spread


class Study(_Facts):
    """All of it."""

    started: str
    command: str
    machine: Machine
    budget: Budget
    jobs: int
    runs: dict[str, Run] = {}
    latency: dict[str, Latency] = {}

    def save(self, path: Path) -> None:
        """Writes it whole, or not at all."""
        write_whole(path, self.model_dump_json(indent=1) + "\n")


def load_study(path: Path) -> Study:
    """The study in a file.

    Raises:
        UsageError: the file cannot be read, or holds something else.
    """
    try:
        return Study.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        where, wrong = first_mistake(error)
        raise UsageError(f"{path} is no study: {where}: {wrong}; name another file") from error
