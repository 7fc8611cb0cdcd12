"""Python runs this at the start of every process whose path holds this folder: the children of a profile.

It puts the timers of `vlmopt.measure.probe` in place before anything of vLLM is imported, in whatever process
vLLM then starts, and lets a sampler of the same user look in. What would have run in its place runs after it.
"""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_HERE = Path(__file__).resolve().parent

if folder := os.environ.get("VLMOPT_PROBE"):
    from vlmopt.measure.probe import install

    install(Path(folder))

_next = PathFinder.find_spec(
    "sitecustomize", [path for path in sys.path if not path or Path(path).resolve() != _HERE]
)
if _next is not None and _next.loader is not None:
    _next.loader.exec_module(sys.modules[__name__])
