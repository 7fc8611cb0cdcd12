"""The parsed files of one tree: each is read and parsed once, however many rules and specs look into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vlmopt.bind import BoundEdit, BoundProbe
from vlmopt.drift import tree_words
from vlmopt.errors import RuleError, SourceError
from vlmopt.rewrite import EditResult, Module, Outcome, PatternError, SyntaxErrorInSource

if TYPE_CHECKING:
    from vlmopt.sources import Tree


class Modules:
    """Answers edits and probes on one tree. Share one between the plans of many specs.

    Raises (every method):
        RuleError: a pattern is malformed.
        SourceError: a file cannot be read or parsed.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._modules: dict[str, Module] = {}
        self._texts: dict[str, str] = {}
        self._found: dict[tuple[str, str], EditResult] = {}

    def beside(self, plugged: Tree) -> Modules:
        """The same parsed files, and those of a plug-in that stands beside this tree."""
        other = Modules(plugged)
        other._modules, other._texts, other._found = self._modules, self._texts, self._found
        return other

    def first(self, files: Sequence[str]) -> str | None:
        """The first of these files that the tree has."""
        return next((path for path in files if self.tree.exists(path)), None)

    def text(self, path: str) -> str:
        """The file's text, as it stands in the tree."""
        if path not in self._texts:
            self._texts[path] = self.tree.read(path)
        return self._texts[path]

    def find(self, path: str, bound: BoundEdit) -> EditResult:
        """Where the edit hits in `path`; its `already` probes into other files are asked too."""
        # Rules that read no facts of the model give the same edit for every spec.
        key = (path, repr(bound.edit))
        if key not in self._found:
            try:
                self._found[key] = self._module(path).find(bound.edit)
            except PatternError as error:
                raise RuleError(f"{bound.where}: edit {bound.number}: {error}") from None
            except SyntaxErrorInSource as error:
                raise self._unreadable(error) from None
        result = self._found[key]
        if result.outcome is Outcome.drift and any(self.holds(probe) for probe in bound.elsewhere):
            return replace(result, outcome=Outcome.already, splices=())
        return result

    def holds(self, bound: BoundProbe) -> bool:
        """Whether the probe matches at least once. A file that is not there holds nothing."""
        path = self.first(bound.files)
        if path is None:
            return False
        try:
            return self._module(path).probe(bound.probe) > 0
        except PatternError as error:
            raise RuleError(f"{bound.where}: already: {error}") from None
        except SyntaxErrorInSource as error:
            raise self._unreadable(error) from None

    def _module(self, path: str) -> Module:
        if path not in self._modules:
            self._modules[path] = Module(self.text(path), path)
        return self._modules[path]

    def _unreadable(self, error: SyntaxErrorInSource) -> SourceError:
        return SourceError(f"{error}: {tree_words(self.tree)} cannot be parsed; use an intact tree")
