"""Profiles made on the spot."""

from vlmopt.measure.bench_file import Machine
from vlmopt.measure.profile_file import Moved, Profile, ProfiledStage, Spread
from vlmopt.measure.stages import OTHER, stage_table


def spread(seconds: float) -> Spread:
    """One that hardly varies."""
    return Spread(median=seconds, low=0.9 * seconds, high=1.1 * seconds)


def made(shares: dict[str, float], *, seconds: float = 0.1, **more: object) -> Profile:
    """A profile of a request of so many seconds; stages that are not named have no time."""
    titles = {stage.id: (stage.title, stage.what) for stage in stage_table().stages}
    titles[OTHER] = ("Other", "what no stage saw")
    rest = 1 - sum(shares.values())
    stages = [
        ProfiledStage(
            id=name,
            title=title,
            what=what,
            share=(share := shares.get(name, rest if name == OTHER else 0.0)),
            seconds=spread(share * seconds),
            seen=share > 0,
            note="" if share > 0 else "not seen: none of its functions was called",
        )
        for name, (title, what) in titles.items()
    ]
    facts: dict[str, object] = {
        "model": "tiny-1b",
        "title": "Tiny 1B",
        "side": "stock",
        "fork": None,
        "folder": None,
        "vllm": "1.2.3",
        "engine": "offline",
        "images": "photographs of 640x480, JPEG",
        "prompt_tokens": 1234,
        "requests": 12,
        "clock": spread(seconds),
        "untimed": spread(0.98 * seconds),
        "stages": stages,
        "moved": Moved(
            to_engine=47_700_000, wire=False, to_device=47_700_000, copies=3, pinned=0, leaves_host=False
        ),
        "absent": ["vllm.gone:function"],
        "notes": ["weights: seeded"],
        "machine": Machine(
            cpu="A CPU", cores=2, memory=2**34, system="Linux", device="cpu", accelerator=None, threads=1,
            versions={"vllm": "1.2.3"},
        ),
        "started": "2026-11-30T05:00:00+00:00",
    }  # fmt: skip
    return Profile.model_validate(facts | more)
