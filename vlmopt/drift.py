"""What a person reads when an edit does not find its place: the most important message of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmopt.rewrite import Candidate
from vlmopt.treepath import package_of

if TYPE_CHECKING:
    from vlmopt.sources import Tree


@dataclass(frozen=True)
class Drift:
    """One edit that found its place too rarely or too often, or not the file itself."""

    rule: str
    number: int
    where: str  # file:line of the edit in the rule's YAML
    file: str
    file_exists: bool
    within: str | None
    expected: tuple[int, int]
    found: int
    candidate: Candidate | None
    home: str = "this vLLM"  # what the file belongs to

    def short(self) -> str:
        """One line, for a table of statuses."""
        if not self.file_exists:
            return f"edit {self.number}: {self.file} is not in {self.home}"
        return f"edit {self.number}: expected {self._wanted()}, found {self.found} in {self.file}"

    def lines(self) -> list[str]:
        """The whole story, one labelled line each."""
        result = [f"rule      {self.rule}, edit {self.number} ({self.where})"]
        if not self.file_exists:
            return [*result, f"file      {self.file} is not in {self.home}"]
        result.append(f"file      {self.file}")
        if self.within is not None:
            result.append(f"within    {self.within}")
        result.append(f"expected  {self._wanted()}, found {self.found}")
        if self.candidate is None:
            result.append("nearest   nothing in this file is close")
        else:
            result.append(f"nearest   line {self.candidate.line}: {self.candidate.code.strip()}")
            result.append(f"differs   {self.candidate.difference}")
        return result

    def _wanted(self) -> str:
        low, high = self.expected
        return f"{low} match{'' if low == 1 else 'es'}" if low == high else f"{low} to {high} matches"


def tree_words(tree: Tree) -> str:
    """The tree in words: vLLM with its version and place, and a plug-in beside it with its own."""
    words = f"vLLM {tree.version} ({tree.location})"
    plugin = getattr(tree, "plugin", None)
    return f"{words} with {plugin.words}" if plugin else words


def home_words(tree: Tree, path: str) -> str:
    """What a file belongs to, in words: vLLM, or the plug-in beside it."""
    plugin = getattr(tree, "plugin", None)
    if plugin is not None and package_of(path) == plugin.package:
        return str(plugin.words)
    return f"vLLM {tree.version} ({tree.location})"


def drift_message(drifts: Sequence[Drift], tree: Tree) -> str:
    """The message of a DriftError, for all edits that drifted in one run."""
    count = "1 edit does" if len(drifts) == 1 else f"{len(drifts)} edits do"
    head = f"{count} not find the expected place in {tree_words(tree)}; nothing was written"
    blocks = ["\n".join(f"  {line}" for line in drift.lines()) for drift in drifts]
    names = ",".join(dict.fromkeys(drift.rule for drift in drifts))
    after = f"Next: add this vLLM's shape of the place to the rule (one_of), or leave it out: --skip {names}"
    if any(drift.home != Drift.home for drift in drifts):
        after = after.replace("this vLLM's shape", "the shape here", 1)
    return "\n\n".join([head, *blocks, after])
