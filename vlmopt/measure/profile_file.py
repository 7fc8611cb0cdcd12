"""The file of a profile, `DIR/measured/profile-SIDE.json`: where the time before the first token went."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from vlmopt.errors import UsageError
from vlmopt.measure.bench_file import Machine
from vlmopt.measure.stages import OTHER
from vlmopt.mistakes import first_mistake
from vlmopt.whole import write_whole

BESIDE = (".svg", ".collapsed")
"""What a flame graph leaves beside a profile."""
Side = Literal["stock", "fork"]
EngineKind = Literal["offline", "serve"]


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spread(_Facts):
    """Seconds over repeated requests: median and quartiles."""

    median: float
    low: float
    high: float


class ProfiledStage(_Facts):
    """One stage. `share` is its part of all time that the clock saw; the shares of a profile add up to 1.

    `seen` says whether anything of it ran; where not, `note` says why.
    """

    id: str
    title: str
    what: str
    share: float
    seconds: Spread
    seen: bool = True
    note: str = ""


class Moved(_Facts):
    """What one request moves, medians.

    Attributes:
        to_engine: bytes that go to the engine: on the wire to its process, or, in one process, those of the
            items' tensors.
        wire: whether the engine is another process.
        to_device: bytes of the tensors that are put on the device, by `copies` copies, of which `pinned` are
            from page-locked memory. On a CPU `leaves_host` is false, and nothing is really copied.
    """

    to_engine: int
    wire: bool
    to_device: int
    copies: int
    pinned: int
    leaves_host: bool


class Profile(_Facts):
    """One profile.

    Attributes:
        model: the spec's name; `title` the name that people know it by.
        side: stock, or the fork in the folder `fork`.
        folder: the model folder; None for the spec's small one, whose towers are shrunk.
        vllm: stock's version.
        images: what was sent, one or more images a request, in words.
        prompt_tokens: of the whole prompt.
        requests: how many were timed.
        clock: seconds of a request seen from outside, with the timers on; `untimed` of requests between
            those, with the timers off.
        stages: in the order in which a request meets them; `other` is what no stage saw, and stands last.
        absent: functions that the table of stages names and this vLLM does not have, or did not load.
        notes: what else is to be known, one line each.
    """

    format: Literal[1] = 1
    model: str
    title: str
    side: Side
    fork: str | None
    folder: str | None
    vllm: str
    engine: EngineKind
    images: str
    prompt_tokens: int
    requests: int
    clock: Spread
    untimed: Spread
    stages: list[ProfiledStage]
    moved: Moved
    absent: list[str]
    notes: list[str]
    machine: Machine
    started: str

    def share(self, stage: str) -> float:
        """The share of a stage; 0 for one that the profile does not have."""
        return next((found.share for found in self.stages if found.id == stage), 0.0)

    @property
    def other(self) -> ProfiledStage:
        """What no stage saw."""
        return next(stage for stage in self.stages if stage.id == OTHER)


def profile_path(folder: Path, side: Side) -> Path:
    """Where the profile of a side stands in a fork's folder."""
    return folder / "measured" / f"profile-{side}.json"


def keepsakes(path: Path) -> dict[str, bytes]:
    """A profile of stock and the files beside it, by the names that they have in a fork's `measured` folder.

    `apply` replaces a fork's folder, and the profile that it follows may lie in there.
    """
    name = profile_path(Path(), "stock").name
    parts = {name: path} | {name.replace(".json", kind): path.with_suffix(kind) for kind in BESIDE}
    return {name: part.read_bytes() for name, part in parts.items() if part.is_file()}


def write_profile(profile: Profile, path: Path) -> None:
    """Writes the file whole, or not at all."""
    write_whole(path, profile.model_dump_json(indent=2) + "\n")


def read_profile(path: Path) -> Profile:
    """Reads a profile.

    Raises:
        UsageError: there is no such file, or it is no profile that this version knows.
    """
    try:
        return Profile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; `vlmopt profile --model NAME --out FILE` makes one"
        ) from None
    except ValidationError as error:
        place, wrong = first_mistake(error)
        raise UsageError(
            f"{path} is no profile of this version of vlmopt: {place}: {wrong}; "
            "make it anew with `vlmopt profile`"
        ) from None
