"""What `verify`, `bench` and `profile` would leave in a fork, made up."""

import json
from pathlib import Path

from tests.measure.benches import bench_of, point_of
from vlmopt.measure.bench_file import bench_path, write_bench
from vlmopt.measure.flame_svg import flame_svg
from vlmopt.measure.profile_file import Moved, Profile, ProfiledStage, Spread, profile_path, write_profile
from vlmopt.verify import RESULT_NAME

STACKS = {
    "first process;main thread;vllm/a.py:<module>;vllm/b.py:resize": 700_000,
    "first process;main thread;vllm/a.py:<module>;vllm/vlmopt_runtime/pack.py:pack": 200_000,
}


def add_verification(fork: Path, *, holds: bool = True) -> None:
    """Two levels; the second one breaks its promise where `holds` is false."""
    levels = {"processor": _level("processor"), "engine": _level("engine", holds=holds)}
    (fork / RESULT_NAME).write_text(json.dumps(levels), "utf-8")


def _level(level: str, *, holds: bool = True) -> dict:
    stages = [("prompt token ids", 40, 0, None), ("vision tower inputs", 40, 0 if holds else 3, None)]
    failure = {
        "breaches": ["vision tower inputs: <b>pixels</b> differ", "prompt token ids: 3 | 4"],
        "case": ["one image, RGB, 17 x `9`"],
        "culprit": "scale-late",
        "stable": True,
        "folder": None,
    }
    return {
        "fork": "somewhere",
        "model": "tiny-1b",
        "vllm": "1.2.3",
        "level": level,
        "seed": 7,
        "contract": "exact",
        "bound": None,
        "holds": holds,
        "examples": 20,
        "requests": 1234,
        "images": 41,
        "refused": 2,
        "seconds": 12.5,
        "stages": [
            {"stage": stage, "compared": compared, "differed": differed, "distance": distance}
            for stage, compared, differed, distance in stages
        ],
        "changed": [],
        "failure": None if holds else failure,
    }


def add_bench(fork: Path) -> None:
    """Two sizes, one of which a noisy run measured."""
    noisy = (1.0, 1.6, 0.7, 1.0, 1.3)
    write_bench(bench_of(point_of(), point_of("224x224", stock=noisy, share=0.04)), bench_path(fork))


def add_profiles(fork: Path) -> None:
    """Both sides, each with its flame graph."""
    for side, scale in (("stock", 1.0), ("fork", 0.2)):
        path = profile_path(fork, side)
        write_profile(_profile(side, scale), path)
        path.with_suffix(".svg").write_text(flame_svg(STACKS, f"tiny-1b, {side}"), "utf-8")


def _profile(side: str, scale: float) -> Profile:
    def spread(seconds: float) -> Spread:
        return Spread(median=seconds * scale, low=seconds * scale, high=seconds * scale)

    stages = [
        ProfiledStage(id="resize", title="Resize", what="scaled", share=0.6, seconds=spread(0.03)),
        ProfiledStage(id="other", title="Other", what="unseen", share=0.4, seconds=spread(0.02)),
    ]
    return Profile(
        model="tiny-1b",
        title="Tiny 1B",
        side=side,
        fork=None,
        folder=None,
        vllm="1.2.3",
        engine="offline",
        images="one photograph of 640x480",
        prompt_tokens=100,
        requests=9,
        clock=spread(0.05),
        untimed=spread(0.05),
        stages=stages,
        moved=Moved(to_engine=1, wire=False, to_device=1, copies=1, pinned=0, leaves_host=False),
        absent=[],
        notes=[],
        machine=bench_of(point_of()).machine,
        started="2026-11-30T05:00:00+00:00",
    )
