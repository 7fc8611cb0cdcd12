"""A fork cut off after each rule of its patch series, to find the one that a breach comes from."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vlmopt.errors import SourceError
from vlmopt.fork import Fork, installed_plugin
from vlmopt.fork.links import lay_stock, make_folder, stock_entries
from vlmopt.fork.lock import sha256
from vlmopt.fork.series import read_patch
from vlmopt.fork.write import write_text
from vlmopt.sources import find_installed
from vlmopt.sources.local import LOCK_NAME
from vlmopt.treepath import VLLM, package_of


@dataclass(frozen=True)
class Step:
    """One step from stock to the fork: a rule's patch, or (`rule` is None) changes made after `apply`."""

    rule: str | None
    text: str


def changed_since_apply(fork: Fork) -> list[str]:
    """Files of the fork that are not what `apply` wrote, by tree path: changed, missing or added."""
    changed = []
    for path, entry in fork.lock.files.items():
        file = fork.path / path
        if not file.is_file() or sha256(file.read_text("utf-8", "replace")) != entry["after"]:
            changed.append(path)
    if fork.lock.stock.root is not None:
        files = [path for package in fork.lock.packages for path in stock_entries(fork.path, package)[1]]
        changed += [p for p in files if p not in fork.lock.files and not os.path.islink(fork.path / p)]
    return sorted(changed)


def first_breaking_step(fork: Fork, breaks: Callable[[Path], bool]) -> Step:
    """The step of the series with which a breach begins, found by bisection.

    Args:
        fork: a fork that breaks its promise, where stock does not.
        breaks: says of the folder of a fork, cut off after some step, whether the breach is there.

    Raises:
        SourceError: the patch series cannot be read, or does not fit stock.
    """
    series = _Series(fork)
    good, bad = 0, len(series.steps)
    while bad - good > 1:
        middle = (good + bad) // 2
        with tempfile.TemporaryDirectory(prefix="vlmopt-step-") as scratch:
            if breaks(series.write(middle, Path(scratch) / "fork")):
                bad = middle
            else:
                good = middle
    return series.steps[bad - 1]


class _Series:
    """The texts of all changed files after each step.

    New files (the runtime's) are taken as they are in the fork now, from the rule on that brings them: they
    are what runs. Files that no patch brings, the import guard's, are always there.
    """

    def __init__(self, fork: Fork) -> None:
        self.fork = fork
        self.roots = _stock_roots(fork)
        covered: dict[str, str | None] = {}
        self.texts: list[Mapping[str, str | None]] = [dict(covered)]
        self.steps: list[Step] = []
        for rule, path in fork.patches.items():
            for diff in read_patch(path).files:
                if diff.is_new:
                    covered[diff.path] = None
                else:
                    before = covered.get(diff.path)
                    covered[diff.path] = diff.apply(self._stock(diff.path) if before is None else before)
            self.texts.append(dict(covered))
            self.steps.append(Step(rule, f"{rule} ({path.relative_to(fork.path)})"))
        edited = [path for path in changed_since_apply(fork) if covered.get(path, "") is not None]
        if edited:
            self.texts.append({**covered, **dict.fromkeys(edited)})
            self.steps.append(Step(None, f"a change made to the fork after apply: {', '.join(edited)}"))

    def write(self, step: int, into: Path) -> Path:
        """The fork as it is after a step, in a folder of its own."""
        patched = self.texts[len(self.fork.patches)]
        always = [path for path in self.fork.lock.files if path not in patched]
        own = {**dict.fromkeys(always), **self.texts[step]}
        for package, root in self.roots.items():
            lay_stock(root, into, own.keys(), package=package)
        for path, text in own.items():
            if text is not None:
                write_text(into / path, text)
            elif (self.fork.path / path).is_file():
                make_folder((into / path).parent)
                shutil.copyfile(self.fork.path / path, into / path)
        for info in self.fork.path.glob("*.dist-info"):
            shutil.copytree(info, into / info.name)
        shutil.copyfile(self.fork.path / LOCK_NAME, into / LOCK_NAME)
        return into

    def _stock(self, path: str) -> str:
        file = self.roots[package_of(path)] / path
        try:
            return file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"cannot read {file}: {error}") from None


def _stock_roots(fork: Fork) -> dict[str, Path]:
    """The folder that holds each package that the fork overlays."""
    stock, plugin = fork.lock.stock.root, fork.lock.plugin
    if stock is None:
        installed = find_installed()
        if installed is None:
            raise SourceError(
                f"the fork {fork.path} is a copy, and the vLLM that it came from is not installed"
            )
        stock = str(installed.root)
    roots = {VLLM: Path(stock)}
    if plugin is not None:
        root = plugin.root or installed_plugin(fork).root
        roots[plugin.package] = Path(root)
    return roots
