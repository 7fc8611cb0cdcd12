"""Drafts the spec of an architecture from a vLLM tree by static analysis; nothing of the tree is run."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from typing import Protocol

from vlmopt.errors import SourceError, UsageError
from vlmopt.infer import facts
from vlmopt.infer.code import Code, Definition
from vlmopt.infer.draft import Draft
from vlmopt.infer.registry import REGISTRY, Registered, read_registry

__all__ = ["Draft", "Surveyor", "VllmTree", "infer_spec"]


class VllmTree(Protocol):
    """The part of a source tree (`vlmopt.sources.Tree`) that drafting needs."""

    @property
    def version(self) -> str: ...
    def read(self, path: str) -> str: ...
    def exists(self, path: str) -> bool: ...
    def prefetch(self, paths: Iterable[str]) -> None: ...


def infer_spec(tree: VllmTree, architecture: str) -> Draft:
    """Drafts the spec of one architecture.

    Raises:
        UsageError: the registry does not have it, or it takes no images.
        SourceError: the tree's registry or files cannot be read.
    """
    return Surveyor(tree).draft(architecture)


class Surveyor:
    """Drafts many architectures of one tree; every file is read and parsed once."""

    def __init__(self, tree: VllmTree) -> None:
        self._tree = tree
        self._code = Code(tree)
        self.registry = read_registry(self._code)

    def candidates(self) -> list[Registered]:
        """The rows that may take images, told without parsing.

        These are the multimodal ones, and those whose file registers a processor.
        """
        paths = {row.module: self.path(row) for row in self.registry.values()}
        self._tree.prefetch(sorted({path for path in paths.values() if path is not None}))
        return [row for row in self.registry.values() if self._may_take_images(row, paths[row.module])]

    def path(self, row: Registered) -> str | None:
        """The file that a row of the registry names, or None when the tree does not have it."""
        return self._code.path_of(row.module)

    def _may_take_images(self, row: Registered, path: str | None) -> bool:
        if path is None or row.multimodal:
            return row.multimodal
        return path.endswith("/__init__.py") or self._code.mentions(path, "register_processor")

    def drafts(self, rows: Iterable[Registered] | None = None) -> Iterator[Draft]:
        """Drafts of the architectures among `rows` (default: all candidates) that take images, in order."""
        for row in self.candidates() if rows is None else rows:
            found = self._draft(row)
            if isinstance(found, Draft):
                yield found

    def draft(self, architecture: str) -> Draft:
        """The draft of one architecture.

        Raises:
            UsageError: the registry does not have it, or it takes no images.
        """
        row = self.registry.get(architecture)
        if row is None:
            near = difflib.get_close_matches(architecture, self.registry, n=1)
            hint = f"did you mean {near[0]}?" if near else "`vlmopt scan` shows those that take images"
            raise UsageError(f"vLLM {self._tree.version} has no architecture {architecture!r}; {hint}")
        found = self._draft(row)
        if isinstance(found, str):
            raise UsageError(f"{architecture} of vLLM {self._tree.version}: {found}")
        return found

    def _draft(self, row: Registered) -> Draft | str:
        """The draft, or why there is none."""
        code = self._code
        path = code.path_of(row.module)
        if path is None:
            raise SourceError(f"{REGISTRY}: names the module {row.module}, which is not in the tree")
        models = [cls for cls in code.resolve(path, row.class_name) if cls.is_class]
        if not models:
            return f"no class {row.class_name} is defined in or imported by {path}"
        model, *rivals = models
        registered = facts.registration(code, code.lineage(model))
        if registered is None:
            return "it registers no multimodal processor, so it takes no images"
        if not registered.processors:
            return f"the processor registered for {model.name} in {model.path} is no class of the tree"
        processor, *others = _by_likeness(registered.processors, model.name)
        lineage = code.lineage(processor)
        info = [step for cls in _by_likeness(registered.infos, model.name)[:1] for step in code.lineage(cls)]
        fields = facts.batch_fields(code, lineage, info)
        if not facts.accepts_images(code, info, fields):
            return "it takes no images"
        return Draft(
            architecture=row.architecture,
            vllm=self._tree.version,
            module=model.path,
            class_name=model.name,
            processor_module=processor.path,
            processor_class=processor.name,
            rivals=tuple(cls.path for cls in rivals),
            processor_rivals=tuple(cls.name for cls in others),
            fields=fields,
            targets=facts.image_targets(code, lineage, info),
            hf_processor=facts.hf_processor(code, info),
        )


def _by_likeness(classes: tuple[Definition, ...], name: str) -> list[Definition]:
    """Rivals, first the one whose name begins most like the model class: vLLM names alike what belongs."""
    return sorted(classes, key=lambda cls: -len(os.path.commonprefix([cls.name, name])))
