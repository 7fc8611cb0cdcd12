"""Checks that the vLLM that a fork links to is the one that it was made from.

A fork is links into an installed vLLM, or into a checkout, with a few changed files among them. When that
vLLM is upgraded or removed afterwards, the changed files no longer fit the rest; an import must say so at
once. It costs 3 ms: the sha256 of the version file and of each file that was changed. The same goes for a
package that plugs into vLLM, where the fork overlays one too; a Python file that it has gained since has no
link in the fork, so the names of all of them are compared as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

_AGAIN = "run `vlmopt apply` again"


def check() -> None:
    """Called by the fork's `vllm/__init__.py`.

    Raises:
        ImportError: the fork and the vLLM beside it do not fit; one line that says what to do.
    """
    fork = os.path.abspath(__file__)
    for _ in ("guard.py", "vlmopt_runtime", "vllm"):
        fork = os.path.dirname(fork)
    trouble = problem(fork)
    if trouble is not None:
        raise ImportError(trouble)


def problem(fork: str) -> str | None:
    """Why the fork in this folder cannot run, in one line; None when it can.

    A folder without a lock is an installed wheel, or a checkout that took the patches: nothing to compare.
    """
    try:
        with open(os.path.join(fork, "vlmopt.lock.json"), "rb") as file:
            lock = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        return f"the lock of the fork {fork} is damaged; write the fork anew with `vlmopt apply`"
    stock, version = lock["stock"], lock["vllm"]["version"]
    if not stock["complete"]:
        return (
            f"the fork {fork} holds the changed files alone; start it with `vlmopt run {fork} -- ...`, "
            f"which adds the rest from an installed vLLM {version}"
        )
    trouble = _changed(fork, stock, f"vLLM {version}")
    plugin = lock.get("plugin")
    if trouble is not None or plugin is None:
        return trouble
    name = "{distribution} {version}".format(**plugin)
    trouble = _changed(fork, plugin, name)
    if trouble is None and plugin["modules"]:
        package = os.path.join(plugin["root"], plugin["package"])
        if modules(package) != plugin["modules"]:
            return f"{package} has other Python files than the fork {fork} ({name}) has; {_AGAIN}"
    return trouble


def modules(package: str) -> str:
    """The sha256 of the names of a package's Python files."""
    names = []
    for folder, _, files in os.walk(package):
        inside = os.path.relpath(folder, package)
        names += [f"{inside}/{name}" for name in files if name.endswith(".py")]
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def _changed(fork: str, stock: dict[str, Any], name: str) -> str | None:
    """Which file of stock is not as the fork needs it."""
    for path, sha256 in stock["sha256"].items():
        target = os.path.join(stock["root"], path)
        try:
            with open(target, "rb") as file:
                same = hashlib.sha256(file.read()).hexdigest() == sha256
        except OSError:
            return f"{target} is gone, which the fork {fork} ({name}) needs; {_AGAIN}"
        if not same:
            return f"{target} differs from what the fork {fork} ({name}) needs; {_AGAIN}"
    return None
