"""A static view of the Python code in a tree: names, imports, classes and their bases. Nothing is run.

`Code` resolves a name in a module to what defines it, across files, through import aliases and re-exports.
Where a package picks an implementation by platform, one name has several definitions; `resolve` returns
them all, the default one first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vlmopt.errors import SourceError


class Files(Protocol):
    """The part of a source tree that static analysis needs."""

    def read(self, path: str) -> str: ...
    def exists(self, path: str) -> bool: ...


@dataclass(frozen=True)
class Definition:
    """A name bound at the top level of one file: a class, a function, or the value assigned to it."""

    path: str
    name: str
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.expr

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)


@dataclass(frozen=True)
class _Import:
    """`name` of module `dotted`, or the module itself (None). `rank` orders rival imports of one name."""

    dotted: str
    name: str | None
    rank: int


@dataclass
class _Module:
    path: str
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, list[_Import]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


_PACKAGE = "vllm"

# Rival imports of one name, best first: what type checkers see, what always runs, the `else`, an `if`.
_TYPING, _PLAIN, _DEFAULT, _SPECIAL = range(4)


class Code:
    """Parsed modules of one tree, each parsed once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, bool] = {}
        self._texts: dict[str, str | None] = {}
        self._modules: dict[str, _Module | None] = {}
        self._resolved: dict[tuple[str, str], list[Definition]] = {}

    def text(self, path: str) -> str:
        """The text of a file. Raises SourceError when the tree does not have it."""
        text = self._text(path)
        return self._files.read(path) if text is None else text

    def _text(self, path: str) -> str | None:
        if path not in self._texts:
            self._texts[path] = self._files.read(path) if self._exists(path) else None
        return self._texts[path]

    def _exists(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = self._files.exists(path)
        return self._known[path]

    def path_of(self, dotted: str) -> str | None:
        """The file of a dotted module name, or None when it is no module of vLLM's."""
        if dotted.partition(".")[0] != _PACKAGE:
            return None
        base = dotted.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py"):
            if self._exists(path):
                return path
        return None

    def mentions(self, path: str, word: str) -> bool:
        """Whether the file's text contains `word`: a cheap test before parsing."""
        return word in (self._text(path) or "")

    def may_lead_to(self, path: str, name: str, word: str) -> bool:
        """Whether what `name` means in a file may contain `word`; no other file is parsed to tell."""
        module = self._module(path)
        if module is None:
            return False
        if name in module.definitions:
            return word in (self._text(path) or "")
        for imported in module.imports.get(name, ()):
            target = self.path_of(imported.dotted)
            if target and (target.endswith("/__init__.py") or self.mentions(target, word)):
                return True
        return False

    def resolve(self, path: str, name: str) -> list[Definition]:
        """Every definition of a dotted name as a file sees it, the default first; [] when it is foreign."""
        key = (path, name)
        if key not in self._resolved:
            found: list[Definition] = []
            self._resolve(path, name.split("."), found, set())
            self._resolved[key] = found
        return self._resolved[key]

    def origin(self, path: str, name: str) -> str | None:
        """The dotted name that `name` was imported from (`transformers.X`); None when it is no import."""
        module = self._module(path)
        first, _, rest = name.partition(".")
        if module is None or first not in module.imports:
            return None
        best = module.imports[first][0]
        return ".".join(part for part in (best.dotted, best.name, rest) if part)

    def lineage(self, cls: Definition) -> list[Definition]:
        """The class and its in-tree bases in lookup order: depth first, a shared base last."""
        order: list[Definition] = []
        self._ancestors(cls, order, ())
        keep = {(item.path, item.name): index for index, item in enumerate(order)}
        return [item for index, item in enumerate(order) if keep[item.path, item.name] == index]

    def _ancestors(
        self, cls: Definition, order: list[Definition], above: tuple[tuple[str, str], ...]
    ) -> None:
        key = (cls.path, cls.name)
        if key in above or not isinstance(cls.node, ast.ClassDef):
            return
        order.append(cls)
        for base in cls.node.bases:
            name = dotted_name(base)
            for definition in self.resolve(cls.path, name)[:1] if name else []:
                self._ancestors(definition, order, (*above, key))

    def _module(self, path: str) -> _Module | None:
        if path not in self._modules:
            text = self._text(path)
            self._modules[path] = None if text is None else self._parse(path, text)
        return self._modules[path]

    def _parse(self, path: str, text: str) -> _Module:
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise SourceError(f"{path}:{line}: not valid Python: {error.args[0]}") from error
        module = _Module(path)
        for statement, rank in _statements(body, _PLAIN):
            _record(module, statement, rank)
        for rivals in module.imports.values():
            rivals.sort(key=lambda rival: rival.rank)
        return module

    def _resolve(
        self, path: str, parts: Sequence[str], found: list[Definition], seen: set[tuple[str, str]]
    ) -> None:
        key = (path, ".".join(parts))
        module = self._module(path)
        if module is None or key in seen:
            return
        seen.add(key)
        name = parts[0]
        if len(parts) == 1 and name in module.definitions:
            definition = module.definitions[name]
            node = definition.node
            alias = dotted_name(node) if isinstance(node, ast.Name | ast.Attribute) else None
            if alias and alias != name:
                self._resolve(path, alias.split("."), found, seen)
            elif definition not in found:
                found.append(definition)
            return
        for rival in module.imports.get(name, ()):
            self._follow(rival, parts[1:], found, seen)
        if name not in module.imports:
            for dotted in module.stars:
                target = self.path_of(dotted)
                if target:
                    self._resolve(target, parts, found, seen)

    def _follow(
        self, imported: _Import, rest: Sequence[str], found: list[Definition], seen: set[tuple[str, str]]
    ) -> None:
        if imported.name is not None:
            target = self.path_of(imported.dotted)
            before = len(found)
            if target:
                self._resolve(target, [imported.name, *rest], found, seen)
            if len(found) > before or not rest:
                return
            dotted, names = f"{imported.dotted}.{imported.name}", list(rest)
        else:
            dotted, names = imported.dotted, list(rest)
        while names:
            target = self.path_of(dotted)
            if target:
                self._resolve(target, names, found, seen)
            dotted, names = f"{dotted}.{names[0]}", names[1:]


def dotted_name(node: ast.AST | None) -> str | None:
    """`a.b.c` for a name or attribute chain (`Base[T]` counts as `Base`); None for anything else."""
    if isinstance(node, ast.Subscript):
        return dotted_name(node.value)
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted_name(node.value)
        return f"{head}.{node.attr}" if head else None
    return None


def package_of(path: str) -> str:
    """The package that a file's relative imports start from: `vllm/a/b.py` -> `vllm.a`."""
    return ".".join(path.split("/")[:-1])


def _statements(body: Sequence[ast.stmt], rank: int) -> Iterator[tuple[ast.stmt, int]]:
    """Top-level statements and their rank, also inside top-level if/try/with and a lazy `__getattr__`."""
    for statement in body:
        if isinstance(statement, ast.If):
            names = [node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)]
            yield from _statements(statement.body, _TYPING if "TYPE_CHECKING" in names else _SPECIAL)
            chained = len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If)
            yield from _statements(statement.orelse, rank if chained else _DEFAULT)
        elif isinstance(statement, ast.Try):
            yield from _statements(statement.body, rank)
            for handler in statement.handlers:
                yield from _statements(handler.body, _SPECIAL)
            yield from _statements([*statement.orelse, *statement.finalbody], rank)
        elif isinstance(statement, ast.With):
            yield from _statements(statement.body, rank)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__":
            yield from _statements(statement.body, _SPECIAL)
        else:
            yield statement, rank


def _record(module: _Module, statement: ast.stmt, rank: int) -> None:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            module.definitions[name] = Definition(module.path, name, statement)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Name):
                    module.definitions[target.id] = Definition(module.path, target.id, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            module.definitions[name] = Definition(module.path, name, value)
        case ast.Import(names=aliases):
            for alias in aliases:
                bound = alias.asname or alias.name.partition(".")[0]
                dotted = alias.name if alias.asname else bound
                module.imports.setdefault(bound, []).append(_Import(dotted, None, rank))
        case ast.ImportFrom():
            dotted = _absolute(module.path, statement)
            for alias in statement.names:
                if alias.name == "*":
                    module.stars.append(dotted)
                else:
                    bound = alias.asname or alias.name
                    module.imports.setdefault(bound, []).append(_Import(dotted, alias.name, rank))
        case _:
            pass


def _absolute(path: str, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    parts = package_of(path).split(".")
    kept = parts[: len(parts) - (statement.level - 1)]
    return ".".join([*kept, *([statement.module] if statement.module else [])])
