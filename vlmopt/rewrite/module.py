"""One file: parsed as far as an edit needs it, and searched."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from vlmopt.rewrite.candidate import at_offset, nearest, nearest_scope
from vlmopt.rewrite.compose import compose
from vlmopt.rewrite.edits import Action, Candidate, Edit, EditResult, Outcome, Probe, Splice
from vlmopt.rewrite.errors import SyntaxErrorInSource
from vlmopt.rewrite.imports import missing_imports
from vlmopt.rewrite.outline import Chunk, outline, syntax_error
from vlmopt.rewrite.pattern import Kind, Pattern, compile_match
from vlmopt.rewrite.region import Region
from vlmopt.rewrite.scope import Step, parse_scope, resolve
from vlmopt.rewrite.search import Match, check_where, find, line_of
from vlmopt.rewrite.shape import CompiledShape, Sites, check, compile_shape
from vlmopt.rewrite.site import Misfit

NOT_NEWLINE = re.compile(r"[^\r\n]")
_LARGE = 50_000
"""Characters of a class from which on it pays to parse a part of it."""

Places = list[tuple[Region, cst.CSTNode]]


@dataclass
class _Found:
    """What one shape found in a file."""

    number: int
    shape: CompiledShape
    todo: list[Match] = field(default_factory=list)
    done: list[Match] = field(default_factory=list)
    misfit: tuple[Match, str] | None = None
    splices: tuple[Splice, ...] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """How many places there are: those to change and those that are changed already; of a replacement,
        whose result may have stood elsewhere all along, also those to change alone."""
        every = len(self.todo) + len(self.done)
        return (len(self.todo), every) if self.shape.shape.action is Action.replace else (every,)

    def add(self, sites: Sites) -> None:
        self.todo.extend(sites.todo)
        self.done.extend(sites.done)
        self.misfit = self.misfit or sites.misfit


class Module:
    """A Python file in memory. Nothing is parsed before it is asked for, and nothing twice.

    All methods raise SyntaxErrorInSource when the text is not Python, and PatternError when an edit is
    malformed.
    """

    def __init__(self, text: str, path: str = "<module>") -> None:
        self.text = text
        self.path = path
        self._chunks: tuple[Chunk, ...] | None = None
        self._regions: dict[tuple[int, int], Region] = {}

    def probe(self, probe: Probe) -> int:
        """How often a pattern matches."""
        pattern = compile_match(probe.match)
        check_where(probe.where, pattern.names)
        if not pattern.occurs_in(self.text):
            return 0
        places = self._places(probe.within, [pattern], count_only=True)
        return sum(len(find(pattern, region, scope, probe.where)) for region, scope in places)

    def find(self, edit: Edit) -> EditResult:
        """Find an edit's places and say what it would change."""
        check(edit)
        shapes = [_Found(number, compile_shape(shape)) for number, shape in enumerate(edit.shapes)]
        for found in shapes:
            self._search(found, edit.within)
        low, high = edit.times
        hits = []
        for found in shapes:
            if found.misfit is None and found.todo and any(low <= count <= high for count in found.counts):
                self._write(found, edit)
            if found.splices:
                hits.append(found)
        if len(hits) == 1:
            hit = hits[0]
            splices = (*self._imports(edit), *hit.splices)
            count = next(count for count in hit.counts if low <= count <= high)
            return EditResult(edit, Outcome.hit, count, hit.number, splices, None)
        if len(hits) > 1:
            return self._ambiguous(edit, hits)
        for found in shapes:
            if not found.todo and found.misfit is None and max(low, 1) <= len(found.done) <= high:
                return EditResult(edit, Outcome.present, len(found.done), found.number, (), None)
        if any(self.probe(probe) for probe in edit.already):
            return EditResult(edit, Outcome.already, 0, None, (), None)
        most = max((len(found.todo) for found in shapes), default=0)
        if low == 0 and most == 0 and not any(found.misfit for found in shapes):
            return EditResult(edit, Outcome.hit, 0, None, (), None)
        return EditResult(edit, Outcome.drift, most, None, (), self._candidate(edit, shapes))

    def _search(self, found: _Found, within: str | None) -> None:
        shape = found.shape
        if not shape.may_match(self.text) and not shape.may_be_present(self.text):
            return
        patterns = [shape.template] if shape.pattern is None else [shape.pattern, shape.template]
        words = patterns if shape.pattern is not None else []
        if within is None and shape.shape.action in (Action.before, Action.after):
            # The code of an earlier run may stand in the chunk beside the one that holds the match.
            words = []
        for region, scope in self._places(within, words, patterns):
            found.add(shape.sites(region, scope))

    def _write(self, found: _Found, edit: Edit) -> None:
        """Make the splices of a shape; matches that overlap, or that its code does not fit, are a misfit."""
        splices: list[Splice] = []
        for match in found.todo:
            try:
                splices.extend(found.shape.splices((match,), edit.name))
            except Misfit as misfit:
                found.misfit = match, str(misfit)
                return
        splices = sorted(dict.fromkeys(splices), key=lambda splice: (splice.start, splice.end))
        for before, after in itertools.pairwise(splices):
            if after.start < before.end:
                match = next(m for m in found.todo if m.start <= after.start < m.end)
                found.misfit = match, "it overlaps another match"
                return
        found.splices = tuple(s for s in splices if s.text != self.text[s.start : s.end])
        if not found.splices:
            found.done, found.todo = [*found.done, *found.todo], []

    def _imports(self, edit: Edit) -> tuple[Splice, ...]:
        if not edit.imports:
            return ()
        first = next((c for c in self._outline() if "import" in self.text[c.start : c.end]), None)
        chunk = self._outline()[0] if first is None or first.is_definition else first
        return missing_imports(self._region(0, chunk.end), edit.imports, edit.name)

    # what to parse

    def _outline(self) -> tuple[Chunk, ...]:
        if self._chunks is None:
            self._chunks = outline(self.text)
        return self._chunks

    def _region(self, start: int, end: int) -> Region:
        region = self._regions.get((start, end))
        if region is None:
            try:
                region = Region(self.text, start, end)
            except cst.ParserSyntaxError as error:
                line, reason = syntax_error(self.text)
                line = line or line_of(self.text, start) + error.raw_line - 1
                raise SyntaxErrorInSource(f"{self.path}:{line}: not valid Python: {reason}") from None
            except ValueError as error:
                raise SyntaxErrorInSource(f"{self.path}:1: {error}") from None
            self._regions[start, end] = region
        return region

    def _whole(self) -> Region:
        return self._region(0, len(self.text))

    def _places(
        self,
        within: str | None,
        words: Sequence[Pattern],
        patterns: Sequence[Pattern] | None = None,
        *,
        count_only: bool = False,
    ) -> Places:
        """The scopes to search, in the parts of the file that have all words of one of the patterns.

        Where matches are only counted, the functions of a large class that lack the words are left out.
        """
        patterns = words if patterns is None else patterns
        if within is None:
            if not words or any(p.kind is Kind.statements and len(p.nodes) > 1 for p in patterns):
                whole = self._whole()
                return [(whole, whole.module)]
            regions = self._parse(
                (c for c in self._outline() if self._has_words(c, words)), words, count_only
            )
            return [(region, region.module) for region in regions]
        steps = parse_scope(within)
        chunks = (c for c in self._outline() if self._has_step(c, steps[0]) and self._has_words(c, words))
        regions = self._parse(chunks, words, count_only)
        return [(region, scope) for region in regions for scope in resolve(region, steps)]

    def _parse(self, chunks: Iterable[Chunk], words: Sequence[Pattern], count_only: bool) -> Iterator[Region]:
        for chunk in chunks:
            known = (chunk.start, chunk.end) in self._regions
            if count_only and not known and chunk.end - chunk.start > _LARGE:
                yield self._without_other_members(chunk, words)
            else:
                yield self._region(chunk.start, chunk.end)

    def _without_other_members(self, chunk: Chunk, words: Sequence[Pattern]) -> Region:
        """A class in which the functions that lack the words are blank, every offset as it was."""
        kept = [span for span in chunk.members if self._has_words(Chunk(*span, True), words)]
        if not kept:
            return self._region(chunk.start, chunk.end)
        text = self.text
        for start, end in chunk.members:
            if (start, end) not in kept:
                text = text[:start] + NOT_NEWLINE.sub(" ", text[start:end]) + text[end:]
        try:
            return Region(text, chunk.start, chunk.end)
        except (cst.ParserSyntaxError, ValueError):
            return self._region(chunk.start, chunk.end)

    def _has_words(self, chunk: Chunk, patterns: Sequence[Pattern]) -> bool:
        text = self.text[chunk.start : chunk.end]
        return not patterns or any(pattern.occurs_in(text) for pattern in patterns)

    def _has_step(self, chunk: Chunk, step: Step) -> bool:
        name = "" if set(step.name) & set("*?") else step.name
        return all(
            word in self.text[chunk.start : chunk.end] for word in ("class" if step.is_class else "def", name)
        )

    # what to say when it does not work

    def _ambiguous(self, edit: Edit, hits: Sequence[_Found]) -> EditResult:
        numbers = " and ".join(str(found.number + 1) for found in hits)
        match = hits[1].todo[0]
        text = f"shapes {numbers} both match (lines {hits[0].todo[0].line} and {match.line}); only one may"
        candidate = at_offset(match.region, match.start, text)
        return EditResult(edit, Outcome.drift, len(hits[0].todo), None, (), candidate)

    def _candidate(self, edit: Edit, shapes: Sequence[_Found]) -> Candidate | None:
        for found in shapes:
            if found.misfit is not None:
                match, reason = found.misfit
                return at_offset(match.region, match.start, reason)
        for found in shapes:
            if found.todo or (found.done and found.shape.shape.action is not Action.replace):
                matches = sorted([*found.todo, *found.done], key=lambda match: match.start)
                lines = ", ".join(str(match.line) for match in matches[:5])
                low, high = edit.times
                wanted = str(low) if low == high else f"{low} to {high}"
                text = f"expected {wanted} of these, found {len(matches)} (line {lines})"
                last = matches[-1]
                return at_offset(last.region, last.start, text)
        whole = self._whole()
        steps = () if edit.within is None else parse_scope(edit.within)
        scopes = resolve(whole, steps)
        if not scopes:
            return nearest_scope(whole, steps)
        best: tuple[float, Candidate] | None = None
        for places in ([(whole, scope) for scope in scopes], [(whole, whole.module)]):
            for found in shapes:
                if found.shape.pattern is not None:
                    near = nearest(found.shape.pattern, places, found.shape.shape.where)
                    if near is not None and (best is None or near[0] > best[0]):
                        best = near
            if best is not None:
                return best[1]
        return at_offset(whole, whole.inner(scopes[0])[0], "nothing of the kind stands here")


def rewrite(text: str, edits: Sequence[Edit], path: str = "<module>") -> str:
    """Apply edits to a text; an edit that drifts changes nothing.

    Raises PatternError, SyntaxErrorInSource and Conflict.
    """
    module = Module(text, path)
    return compose(text, [(edit.name, module.find(edit).splices) for edit in edits])
