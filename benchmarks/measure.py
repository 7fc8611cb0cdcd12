"""Measures every model for the figures of the documentation, and draws them.

    python benchmarks/measure.py docs/figures/results.json [--models A B] [--minutes 5] [--only figures|aims]

Makes a fork of the installed vLLM for each model, runs `vlmopt bench` on it over the five image sizes, and
writes all results into one JSON file; models that are not named keep what the file has of them. Where
something is aimed at for a model, a second run, of a narrower one, goes into aims.json beside it. Then draws.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from draw import AIMS, PHOTO, TARGETS, draw

from vlmopt.measure.matrix import ALL_SIZES
from vlmopt.specs import list_specs

CONCURRENCY = "1,4,8,16"


def vlmopt(*words: str) -> dict[str, Any]:
    """The JSON object of a command; its messages go to the terminal."""
    command = [sys.executable, "-m", "vlmopt.cli", *words, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"vlmopt {' '.join(words)}: exit code {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A configuration with other values; mappings are merged."""
    return config | {
        key: merged(config[key], value) if isinstance(value, dict) else value
        for key, value in changes.items()
    }


def narrow_folder(name: str, changes: dict[str, Any], scratch: Path) -> Path:
    """The small model folder with these changes to its configuration and no weights: bench makes dummies."""
    vlmopt("models", "build", name, "--out", str(scratch))
    for weights in (scratch / name).glob("*.safetensors*"):
        weights.unlink()
    config = scratch / name / "config.json"
    made = merged(json.loads(config.read_text("utf-8")), changes)
    config.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    return config.parent


def keep(results: Path, name: str, bench: dict[str, Any]) -> None:
    """Puts a model's result in place of an older one."""
    kept = json.loads(results.read_text("utf-8")) if results.exists() else {}
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(dict(sorted({**kept, name: bench}.items())), indent=1) + "\n", "utf-8")


def main() -> None:
    """Measures and draws."""
    names = [spec.name for spec in list_specs() if spec.small]
    parser = argparse.ArgumentParser(description="Measure stock and fork for every model, and draw.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", nargs="+", default=names, choices=names)
    parser.add_argument("--minutes", type=float, default=5, help="for each run")
    parser.add_argument("--only", choices=("figures", "aims"), help="one of the two kinds of runs")
    options = parser.parse_args()
    changes = yaml.safe_load(TARGETS.read_text("utf-8"))["config"]
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.models:
            print(name, file=sys.stderr)
            fork = f"{scratch}/{name}"
            vlmopt("apply", "--model", name, "--vllm", "installed", "--out", fork)
            bench = ("bench", fork, "--minutes", f"{options.minutes:g}")
            if options.only != "aims":
                places = ("--sizes", ",".join(ALL_SIZES), "--concurrency", CONCURRENCY)
                keep(options.results, name, vlmopt(*bench, *places))
            if options.only != "figures" and name in changes:
                folder = narrow_folder(name, changes[name], Path(scratch) / "narrow")
                places = ("--sizes", PHOTO, "--tokens", "1", "--concurrency", "8", "--folder", str(folder))
                keep(options.results.with_name(AIMS), name, vlmopt(*bench, *places))
    draw(options.results)


if __name__ == "__main__":
    main()
