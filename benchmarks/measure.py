"""Measures every model for the figures of the documentation, and draws them.

    python benchmarks/measure.py docs/figures/results.json [--models A B] [--minutes 5]

Makes a fork of the installed vLLM for each model, runs `vlmopt bench` on it over the five image sizes, and
writes all results into one JSON file; models that are not named keep what the file has of them. Then draws.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from draw import draw

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


def main() -> None:
    """Measures and draws."""
    names = [spec.name for spec in list_specs() if spec.small]
    parser = argparse.ArgumentParser(description="Measure stock and fork for every model, and draw.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", nargs="+", default=names, choices=names)
    parser.add_argument("--minutes", type=float, default=5, help="for each model")
    options = parser.parse_args()
    kept = json.loads(options.results.read_text("utf-8")) if options.results.exists() else {}
    results = {name: kept[name] for name in names if name in kept}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            print(name, file=sys.stderr)
            fork = f"{folder}/{name}"
            vlmopt("apply", "--model", name, "--vllm", "installed", "--out", fork)
            sizes, minutes = ",".join(ALL_SIZES), f"{options.minutes:g}"
            results[name] = vlmopt(
                *("bench", fork, "--sizes", sizes, "--minutes", minutes, "--concurrency", CONCURRENCY)
            )
            options.results.parent.mkdir(parents=True, exist_ok=True)
            options.results.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    draw(options.results)


if __name__ == "__main__":
    main()
