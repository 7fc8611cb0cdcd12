"""What `vlmopt bench` prints, and the figures that are drawn from it."""

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from rich.console import Console

from tests.measure.benches import CALM, bench_of, point_of
from vlmopt.folders import specs_folder
from vlmopt.measure.bench_file import Bench, Point
from vlmopt.measure.spread import compare
from vlmopt.report.bench import bench_page

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WILD = (1.0, 1.5, 0.6, 1.2, 0.8)


def printed(bench: Bench) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(bench_page(bench))
    return capture.get()


def test_a_calm_benchmark() -> None:
    text = printed(bench_of(point_of(), point_of("224x224", share=0.02)))
    assert "Steady: a second run gives ratios within 10% of these" in text
    assert "?" not in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    first = next(line for line in lines if line.startswith("640x480 200 ms (p95 202 ms) 50.0 ms"))
    assert first.startswith("640x480 200 ms (p95 202 ms) 50.0 ms (p95 50.5 ms) 0.25 ±")
    assert any(line.startswith("224x224 60.0 ms 1.20 ms 1/50 ±") for line in lines)
    assert any(line.startswith("4 at once 5.00 /s 20.0 /s 4.00 ±") for line in lines)
    assert "640x480 47.7 MB in 2, 0 pinned 920 kB in 1, 0 pinned 1/52" in lines
    assert "1 threads" in text or "1 thread" in text


def test_a_noisy_one_says_which_ratios_to_leave() -> None:
    text = printed(bench_of(point_of(fork=WILD), point_of("224x224")))
    assert "The machine was too noisy" in text
    assert "640x480, processor call" in text
    assert "224x224," not in text
    assert " ?" in text


def test_a_busy_machine_is_too_noisy_however_steady_its_ratios() -> None:
    bench = bench_of(point_of(fork=CALM), others=0.4)
    assert bench.noise.too_noisy
    assert "Others took 40% of it; at most 10% may" in printed(bench)


def test_what_stock_refuses_is_said() -> None:
    refused = Point(size="3840x2160", images=4, refused="the prompt is too long")
    assert "4 x 3840x2160: stock refuses it: the prompt is too long" in printed(bench_of(point_of(), refused))


def test_the_switch_of_upstream_is_a_third_column() -> None:
    sides = {"stock": [0.2] * 5, "fork": [0.1] * 5, "switch": [0.3] * 5}
    point = Point(size="640x480", images=1, latency={1: compare(sides)})
    head, row = [" ".join(line.split()) for line in printed(bench_of(point)).splitlines()[2:4]]
    assert head == "time to first token stock fork switch fork / stock switch / stock"
    assert row.startswith("640x480 200 ms (p95 200 ms) 100 ms (p95 100 ms) 300 ms (p95 300 ms) 0.50 ±0% 1.50")


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program that draws."""
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("draw", BENCHMARKS / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("plots")


def test_figures_are_drawn_from_what_bench_prints(draw: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    refused = Point(size="3840x2160", images=1, refused="too long")
    benches = {"a": bench_of(point_of(), point_of("224x224")), "b": bench_of(point_of(share=0.5), refused)}
    results = {name: bench.model_dump(mode="json") for name, bench in benches.items()}
    (folder / "results.json").write_text(json.dumps(results))
    aimed = yaml.safe_load(draw.TARGETS.read_text("utf-8"))["goals"][0]["model"]
    narrow = bench_of(point_of(share=0.7)).model_copy(update={"model": aimed})
    (folder / "aims.json").write_text(json.dumps({aimed: narrow.model_dump(mode="json")}))
    draw.draw(folder / "results.json")
    names = {"host", "stages", "first-token", "throughput", "fp8"}
    assert {path.stem for path in folder.glob("*.svg")} == names
    page = (tmp_path / "figures.md").read_text()
    assert all(f"figures/{name}.svg" in page for name in names)
    assert "| A model | 640x480 | 200 ms | 50.0 ms | 0.25 ±" in page
    assert "Stock refuses these, so nothing is measured: A model 3840x2160." in page
    (folder / "aims.json").unlink()
    draw.draw(folder / "results.json")
    assert "aimed at" not in (tmp_path / "figures.md").read_text()
    assert re.search(r"\| A model \| time to first token \| at most 0.5 \| 0.7 ±\d", page)


def test_the_documentation_says_what_was_measured(draw: ModuleType) -> None:
    root = BENCHMARKS.parent
    results = root / "docs" / "figures" / "results.json"
    benches, aims = draw.benches_of(results), draw.benches_of(results.with_name(draw.AIMS))
    assert draw.page(benches, aims) == (root / "docs" / "figures.md").read_text("utf-8")
    readme = (root / "README.md").read_text("utf-8")
    assert readme.count(f"For one {draw.PHOTO} photograph ") == 1
    assert draw.with_headline(readme, benches) == readme


def test_the_aims_change_what_the_small_models_have(draw: ModuleType) -> None:
    def changed(config: dict[str, Any], changes: dict[str, Any]) -> Iterator[bool]:
        for key, value in changes.items():
            if isinstance(value, dict):
                yield from changed(config[key], value)
            else:
                yield value < config[key]

    targets = yaml.safe_load(draw.TARGETS.read_text("utf-8"))
    assert {goal["model"] for goal in targets["goals"]} == set(targets["config"])
    for name, changes in targets["config"].items():
        config = json.loads((specs_folder() / "small" / name / "config.json").read_text("utf-8"))
        assert all(changed(config, changes)), name
