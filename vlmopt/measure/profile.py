"""Profiles one vLLM, stock's or a fork's: repeated requests, and where their time goes."""

from __future__ import annotations

import io
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import get_args

from PIL import Image, UnidentifiedImageError

from vlmopt.engine.protocol import About
from vlmopt.errors import SourceError, UsageError
from vlmopt.measure import flame, nsight, traces
from vlmopt.measure.choice import one_of
from vlmopt.measure.dtype import Dtype, usual_dtype
from vlmopt.measure.machine import machine_of
from vlmopt.measure.photographs import jpegs, parse_size
from vlmopt.measure.profile_file import (
    EngineKind,
    Moved,
    Profile,
    ProfiledStage,
    Side,
    Spread,
    profile_path,
    write_profile,
)
from vlmopt.measure.sessions import Picture, Session, loaded_model, open_session
from vlmopt.measure.stages import OTHER
from vlmopt.measure.watch import Names, Watch, Watched
from vlmopt.sources import find_installed
from vlmopt.sources.local import LOCK_NAME
from vlmopt.specs import Spec, load_spec
from vlmopt.verify.subject import open_subject

WARM_UPS = 2
REQUESTS = 12
SIZE = "640x480"
BUILD_FOLDER = Path("build")
_THREADS = 1  # of each engine: see engine_environment

Tick = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Wanted:
    """What to profile, and how.

    Attributes:
        images: files that are sent, one a request and each in turn; empty for photographs of `size`.
        requests: how many are timed.
        flame: whether to draw a flame graph; None for where austin is installed.
        trace: whether to keep torch's own profiler trace of one request.
        nsys: whether to record a timeline of the device with Nsight Systems.
        dtype: the model's type; None for bfloat16, or float32 on a CPU without arithmetic for it.
    """

    engine: EngineKind = "offline"
    images: Sequence[Path] = ()
    size: str = SIZE
    requests: int = REQUESTS
    flame: bool | None = None
    trace: bool = False
    nsys: bool = False
    dtype: Dtype | None = None


def engine_kind(text: str) -> EngineKind:
    """Raises UsageError, which names the kinds, for another text than one of them."""
    kinds: tuple[EngineKind, ...] = get_args(EngineKind)
    return one_of(text, kinds, "engine")


@dataclass(frozen=True)
class Written:
    """A profile and the files that were written with it, the profile's first."""

    profile: Profile
    files: Sequence[Path]


def profile_model(
    model: str,
    wanted: Wanted,
    *,
    fork: Path | None = None,
    model_folder: Path | None = None,
    out: Path | None = None,
    progress: Tick | None = None,
) -> Written:
    """Profiles stock, or the fork in a folder, and writes what came out.

    Args:
        model: a spec's name, a path to one, or a hub id that one claims.
        wanted: what to do.
        fork: the fork to profile; None for stock.
        model_folder: a real model folder; None for the spec's small one.
        out: the profile's file; None for its place in the fork's folder, for stock in that of `build/NAME`,
            or, where that is no fork, for `build/NAME-profile-stock.json`.
        progress: called as the work goes on.

    Raises:
        VlmoptError: it cannot be profiled; the message says why.
    """
    tick = progress or _silent
    spec = load_spec(model)
    side: Side = "stock" if fork is None else "fork"
    out = out or _place(spec, fork)
    fork, vllm = _subject(spec, fork)
    austin = flame.find(wanted.flame)
    pictures = list(_pictures(wanted))
    started = datetime.now(UTC).isoformat(timespec="seconds")
    files, notes = [out], []
    again = _again(model, wanted, fork, model_folder)
    if (missing := nsight.missing(again, out)) is not None:
        if wanted.nsys:
            raise UsageError(missing)
        notes.append(missing)
    if austin is None and wanted.flame is None:
        notes.append(f"no flame graph: austin is not installed; {flame.INSTALL}")
    dtype = wanted.dtype or usual_dtype()
    with (
        loaded_model(spec, model_folder) as (loaded, weights, load_format),
        tempfile.TemporaryDirectory(prefix="vlmopt-profile-") as scratch,
        Watch() as watch,
    ):
        trace_folder = Path(scratch) / "trace" if wanted.trace else None
        tick("Starting vLLM", 0, 0)
        with open_session(
            wanted.engine,
            fork,
            loaded,
            watch,
            load_format=load_format,
            dtype=dtype,
            traces=trace_folder,
        ) as session:
            runner = Requests(session, pictures)
            for _ in range(WARM_UPS):
                runner.one()
            timed = []
            for number in range(wanted.requests):
                tick("Timing requests", number, wanted.requests)
                timed.append(runner.pair(watch))
            if austin is not None:
                tick("Sampling stacks", 0, 0)
                title = f"{spec.title}, {side}, {wanted.engine}: one-token requests"
                try:
                    files += flame.draw(austin, session.pid, runner.one, out, title=title)
                except UsageError as error:
                    if wanted.flame:
                        raise
                    notes.append(f"no flame graph: {error}")
            if trace_folder is not None:
                tick("Tracing a request", 0, 0)
                session.trace(True)
                runner.one()
                session.trace(False)
                files += traces.keep(trace_folder, out)
        names, seen = watch.names(), [watched for _, watched in timed]
        about = About(names.device, names.accelerator, _THREADS, {}, None, None)
        profile = Profile(
            model=spec.name,
            title=spec.title,
            side=side,
            fork=None if fork is None else str(fork),
            folder=None if model_folder is None else str(model_folder),
            vllm=vllm,
            engine=wanted.engine,
            images=_in_words(wanted),
            prompt_tokens=seen[0].answer,
            requests=wanted.requests,
            clock=_spread([watched.total for watched in seen]),
            untimed=_spread([bare for bare, _ in timed]),
            stages=_stages(watch, seen),
            moved=_moved(seen, wanted.engine, names.device),
            absent=sorted(names.absent),
            notes=[f"weights: {weights}, {dtype}", *notes],
            machine=machine_of(about, vllm),
            started=started,
        )
    if wanted.nsys:
        tick("Recording the device", 0, 0)
        files += nsight.record(again, out)
    write_profile(profile, out)
    return Written(profile, files)


class Requests:
    """Requests with one picture each, which take turns; the caches are empty before each request."""

    def __init__(self, session: Session, pictures: Sequence[Picture]) -> None:
        self._session = session
        self._pictures = itertools.cycle(pictures)

    def one(self) -> float:
        """Seconds of a request with the next picture, timers off."""
        return self._bare(next(self._pictures))

    def pair(self, watch: Watch) -> tuple[float, Watched[int]]:
        """Two requests with the next picture, with the timers off and on."""
        picture = next(self._pictures)
        untimed = self._bare(picture)
        self._session.forget()
        return untimed, watch.watch(lambda: self._session.ask([picture]))

    def _bare(self, picture: Picture) -> float:
        self._session.forget()
        start = time.perf_counter()
        self._session.ask([picture])
        return time.perf_counter() - start


def _place(spec: Spec, fork: Path | None) -> Path:
    if fork is not None:
        return profile_path(fork, "fork")
    usual = BUILD_FOLDER / spec.name
    if (usual / LOCK_NAME).is_file():
        return profile_path(usual, "stock")
    return usual.with_name(f"{usual.name}-profile-stock.json")


def _subject(spec: Spec, fork: Path | None) -> tuple[Path | None, str]:
    """The fork, complete, and the version of vLLM."""
    if fork is not None:
        subject = open_subject(fork, str(spec.path) if spec.path else spec.name)
        made_for = subject.fork.lock.spec["name"]
        if made_for != spec.name:
            raise UsageError(f"{fork} is a fork for {made_for}, not for {spec.name}: name that model")
        return subject.fork.path, subject.vllm
    installed = find_installed()
    if installed is None:
        raise SourceError(
            "profile runs stock vLLM, and none is installed here: install one (uv sync --group engine)"
        )
    return None, installed.version


def read_pictures(files: Iterable[Path]) -> Iterator[Picture]:
    """The image files as they are; each is opened once to see that it can be.

    Raises:
        UsageError: a file is not there, or no image that Pillow can read.
    """
    for path in files:
        try:
            file = path.read_bytes()
        except OSError as error:
            raise UsageError(
                f"cannot read the image {path}: {error.strerror or error}; name another with --image"
            ) from None
        try:
            with Image.open(io.BytesIO(file)) as image:
                image.load()
                yield Picture(file, image.format or "JPEG")
        except Exception as error:  # Pillow's formats raise what they like
            what = "no image" if isinstance(error, UnidentifiedImageError) else str(error)
            raise UsageError(f"the image {path} cannot be read: {what}; name another with --image") from None


def _pictures(wanted: Wanted) -> Iterator[Picture]:
    if wanted.images:
        yield from read_pictures(wanted.images)
        return
    for file in jpegs(parse_size(wanted.size), WARM_UPS + wanted.requests):
        yield Picture(file, "JPEG")


def _in_words(wanted: Wanted) -> str:
    if wanted.images:
        return ", ".join(path.name for path in wanted.images)
    return f"photographs of {'x'.join(map(str, parse_size(wanted.size)))}, JPEG"


def _stages(watch: Watch, timed: Sequence[Watched[int]]) -> list[ProfiledStage]:
    total = sum(one.total for one in timed)
    names = watch.names()
    found = []
    for stage in watch.table.stages:
        seconds = [one.seconds[stage.id] for one in timed]
        seen = any(stage.id in one.calls for one in timed)
        note = "" if seen else _why_not_seen(watch.of_stage(stage), names)
        found.append(
            ProfiledStage(
                id=stage.id,
                title=stage.title,
                what=stage.what,
                share=sum(seconds) / total,
                seconds=_spread(seconds),
                seen=seen,
                note=note,
            )
        )
    rest = [one.seconds[OTHER] for one in timed]
    return [
        *found,
        ProfiledStage(
            id=OTHER,
            title="Other",
            what="what no stage saw",
            share=sum(rest) / total,
            seconds=_spread(rest),
        ),
    ]


def _why_not_seen(calls: Sequence[str], names: Names) -> str:
    if names.timed.isdisjoint(calls):
        return "not seen: this vLLM has none of the functions that the stage names; its time is in other"
    return "not seen: none of its functions was called"


def _moved(timed: Sequence[Watched[int]], engine: EngineKind, device: str) -> Moved:
    def middle(of: Callable[[Watched[int]], int]) -> int:
        return round(median(map(of, timed)))

    return Moved(
        to_engine=middle(lambda one: one.to_engine),
        wire=engine == "serve",
        to_device=middle(lambda one: one.to_device),
        copies=middle(lambda one: one.copies),
        pinned=middle(lambda one: one.pinned),
        leaves_host=device != "cpu",
    )


def _spread(values: Sequence[float]) -> Spread:
    if len(values) == 1:
        return Spread(median=values[0], low=values[0], high=values[0])
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return Spread(median=middle, low=low, high=high)


def _again(model: str, wanted: Wanted, fork: Path | None, model_folder: Path | None) -> list[str]:
    """The arguments of a short profile of the same, for a program that looks on."""
    spec = Path(model)
    again = ["--model", str(spec.resolve()) if spec.is_file() else model, "--engine", wanted.engine]
    again += ["--requests", "3", "--no-flame", "--size", wanted.size]
    again += [] if wanted.dtype is None else ["--dtype", wanted.dtype]
    again += [] if fork is None else ["--fork", str(fork.resolve())]
    again += [] if model_folder is None else ["--folder", str(model_folder.resolve())]
    for path in wanted.images:
        again += ["--image", str(path.resolve())]
    return again


def _silent(what: str, done: int, total: int) -> None:
    pass
