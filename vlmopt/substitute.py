"""Fills `${dotted.path}` from the facts of a spec. No expressions, no code: a path, or an error.

A text stands for itself; everything else is written as a Python literal, wrapped so that it fits the
source around it. `$${` is a plain `${`.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Mapping
from typing import Any

from vlmopt.errors import RuleError

# vLLM's lines are 88 wide; a literal is mostly re-indented by one level, into a function or class.
_WIDTH = 80
_INDENT = "    "
_VARIABLE = re.compile(r"\$(\$\{)|\$\{([^{}\n]*)(\}|)")
_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")


class Variables:
    """The values that `${...}` may name.

    `facts` is nested plain data; a key with dots in it stands for the nested path. `source` says in
    messages who gives them.
    """

    def __init__(self, facts: Mapping[str, Any], source: str) -> None:
        self.facts = _nested(facts)
        self.source = source

    def fill(self, template: str, where: str) -> str:
        """The template with every variable replaced.

        Raises:
            RuleError: a variable is malformed or unknown; `where` (`file:line`) begins the message.
        """

        def one(m: re.Match[str]) -> str:
            if m[1]:
                return m[1]
            if not m[3] or not _PATH.fullmatch(m[2]):
                raise RuleError(f"{where}: malformed variable {m[0]!r}; write ${{section.key}}")
            value = self.value(m[2], where)
            if isinstance(value, str):
                return value
            line_start = template.rfind("\n", 0, m.start()) + 1
            line = template[line_start : m.start()]
            margin = line[: len(line) - len(line.lstrip())]
            return literal(value, column=len(line)).replace("\n", f"\n{margin}")

        return _VARIABLE.sub(one, template)

    def value(self, path: str, where: str) -> Any:
        """The value under a dotted path.

        Raises:
            RuleError: there is none; the message names the nearest that there is.
        """
        found, value = lookup(self.facts, path)
        if found:
            return value
        near = difflib.get_close_matches(path, sorted(_paths(self.facts)), n=1)
        hint = f"; did you mean ${{{near[0]}}}?" if near else ""
        raise RuleError(f"{where}: unknown variable ${{{path}}}: {self.source} does not give it{hint}")


def variables_in(template: str) -> list[str]:
    """The paths of the variables that a template names."""
    return [m[2] for m in _VARIABLE.finditer(template) if m[3]]


def lookup(facts: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """(whether it is there, the value) of a dotted path in nested facts."""
    value: Any = facts
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return False, None
        value = value[key]
    return True, value


def literal(value: Any, column: int = 0) -> str:
    """Plain data as a Python literal from `column` on: on one line if it fits, else one item a line."""
    flat = _flat(value)
    if column + len(flat) <= _WIDTH or not isinstance(value, Mapping | list) or not value:
        return flat
    return "\n".join(_wrapped(value, ""))


def _wrapped(value: Any, margin: str) -> list[str]:
    inner = margin + _INDENT
    opening, closing = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    items = value.items() if isinstance(value, Mapping) else ((None, item) for item in value)
    lines = [opening]
    for key, item in items:
        start = inner if key is None else f"{inner}{_flat(key)}: "
        flat = _flat(item)
        if len(start) + len(flat) + 1 <= _WIDTH or not isinstance(item, Mapping | list) or not item:
            lines.append(f"{start}{flat},")
        else:
            first, *rest = _wrapped(item, inner)
            lines += [start + first, *rest[:-1], f"{rest[-1]},"]
    return [*lines, margin + closing]


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flat(k)}: {_flat(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    text = repr(value)
    # Double quotes, as in vLLM, wherever that needs no escape.
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def _nested(facts: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for path, given in facts.items():
        *parents, last = path.split(".")
        level = result
        for key in parents:
            if not isinstance(level.get(key), dict):
                level[key] = {}
            level = level[key]
        value = copy.deepcopy(given)
        joins = isinstance(value, dict) and isinstance(level.get(last), dict)
        level[last] = level[last] | value if joins else value
    return result


def _paths(facts: Mapping[str, Any], prefix: str = "") -> set[str]:
    result: set[str] = set()
    for key, value in facts.items():
        result.add(prefix + key)
        if isinstance(value, Mapping):
            result |= _paths(value, f"{prefix}{key}.")
    return result
