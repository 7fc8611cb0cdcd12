"""YAML that people write by hand: plain data only, and every mistake named with its file and line.

Scalars are read as YAML 1.2 reads them (`no` is a text, `2.1e9` a number). Tags, aliases, merges and
repeated keys are refused, so that a file says what it seems to say.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from vlmopt.errors import VlmoptError

Location = tuple[str | int, ...]
ModelT = TypeVar("ModelT", bound=BaseModel)

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MAX_DEPTH = 50


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes only; nothing is ever constructed by PyYAML."""

    yaml_implicit_resolvers: Mapping[str, Any] = {}


_Loader.add_implicit_resolver(f"{_TAG}null", re.compile(r"(~|null|)$"), ["~", "n", ""])
_Loader.add_implicit_resolver(f"{_TAG}bool", re.compile(r"(true|false)$"), ["t", "f"])
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(f"{_INT.pattern}$"), list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", re.compile(f"{_FLOAT.pattern}$"), list("-+.0123456789"))


@dataclass(frozen=True)
class Document:
    """One YAML file: plain data, and the 1-based line of everything in it."""

    path: Path
    data: Any
    sha256: str
    lines: Mapping[Location, int]

    def line(self, location: Location) -> int:
        """The line of `location`, or of the nearest thing that holds it."""
        while location not in self.lines and location:
            location = location[:-1]
        return self.lines.get(location, 1)

    def where(self, location: Location) -> str:
        """`file:line`, for messages."""
        return f"{shown(self.path)}:{self.line(location)}"


def shown(path: Path) -> Path:
    """A path as messages give it: relative to the working directory where it lies inside."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):  # it lies elsewhere, or the working directory is gone
        return path


def load(path: Path, error: type[VlmoptError]) -> Document:
    """Reads one YAML file.

    Raises:
        error: the file cannot be read, is not YAML, or holds more than plain data; with file and line.
    """
    name = shown(path)
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise error(f"{name}: cannot be read: {e.strerror}") from e
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        line = raw.count(b"\n", 0, e.start) + 1
        raise error(f"{name}:{line}: not UTF-8 text") from e
    reader = _Reader(path, error)
    try:
        node = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as e:
        # A quote that is never closed is noticed at the end of the file; its start says more.
        mark = e.context_mark if "quoted scalar" in (e.context or "") else e.problem_mark
        line = mark.line + 1 if mark else 1
        raise error(f"{name}:{line}: not valid YAML: {e.problem or e.context}") from e
    except yaml.reader.ReaderError as e:
        line = text.count("\n", 0, e.position) + 1 if isinstance(e.position, int) else 1
        raise error(f"{name}:{line}: not valid YAML: {e.reason}") from e
    except RecursionError as e:
        raise error(f"{name}: nested too deeply") from e
    if not isinstance(node, yaml.MappingNode):
        raise error(f"{name}:1: expected a mapping of keys to values")
    data = reader.value(node, ())
    return Document(path, data, hashlib.sha256(raw).hexdigest(), reader.lines)


class _Reader:
    """Turns nodes into plain data and notes where each stands."""

    def __init__(self, path: Path, error: type[VlmoptError]) -> None:
        self.path = path
        self.error = error
        self.lines: dict[Location, int] = {}
        self.seen: set[int] = set()

    def fail(self, node: yaml.Node, problem: str) -> VlmoptError:
        return self.error(f"{shown(self.path)}:{node.start_mark.line + 1}: {problem}")

    def value(self, node: yaml.Node, location: Location) -> Any:
        if id(node) in self.seen:
            raise self.fail(node, "aliases (*name) are not used here; write the value out")
        self.seen.add(id(node))
        if len(location) > _MAX_DEPTH:
            raise self.fail(node, "nested too deeply")
        self.lines.setdefault(location, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self.mapping(node, location)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, (*location, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        raise self.fail(node, f"the tag {node.tag} is not used here; plain data only")

    def mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_TAG}str":
                raise self.fail(key_node, "a key must be a text; quote it")
            key = key_node.value
            if key in result:
                first = self.lines[(*location, key)]
                raise self.fail(key_node, f"key {key!r} is given twice (first in line {first})")
            self.lines[(*location, key)] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, (*location, key))
        return result

    def scalar(self, node: yaml.ScalarNode) -> str | int | float | bool | None:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "str":
                return text
            case "int" if _INT.fullmatch(text):
                return int(text)
            case "float" if _FLOAT.fullmatch(text):
                if not math.isfinite(float(text)):
                    raise self.fail(node, f"{text} is not a finite number")
                return float(text)
            case "bool" if text in ("true", "false"):
                return text == "true"
            case "null" if text in ("~", "null", ""):
                return None
        raise self.fail(node, f"the tag {node.tag} is not used here; plain data only")


def validate(document: Document, model: type[ModelT], error: type[VlmoptError]) -> ModelT:
    """Checks a document against its schema.

    Raises:
        error: `file:line: key: what is wrong`, for the first mistake in the file.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as e:
        mistakes = sorted(e.errors(include_url=False), key=lambda m: document.line(m["loc"]))
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        raise error(f"{_explain(document, model, mistakes[0])}{more}") from None


def _explain(document: Document, model: type[BaseModel], mistake: Mapping[str, Any]) -> str:
    location: Location = mistake["loc"]
    kind = mistake["type"]
    if kind == "extra_forbidden":
        key = str(location[-1])
        near = difflib.get_close_matches(key, [known for known in _keys(model) if known != key], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{document.where(location)}: unknown key {_dotted(location)!r}{hint}"
    if kind == "missing":
        return f"{document.where(location)}: the key {_dotted(location)!r} is missing"
    said = mistake["msg"].removeprefix("Value error, ")
    place = f"{_dotted(location)}: " if location else ""
    return f"{document.where(location)}: {place}{said[:1].lower()}{said[1:]}"


def _dotted(location: Location) -> str:
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".")


def _keys(model: type[BaseModel]) -> list[str]:
    schema = model.model_json_schema(by_alias=True)
    parts = [schema, *schema.get("$defs", {}).values()]
    return sorted({key for part in parts for key in part.get("properties", {})})
