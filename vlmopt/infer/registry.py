"""vLLM's model registry, read as data: which architecture is which class of which file."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from vlmopt.errors import SourceError
from vlmopt.infer.code import Code

REGISTRY = "vllm/model_executor/models/registry.py"
_TABLE = "_VLLM_MODELS"
_FLAT_PACKAGE = "vllm.model_executor.models"


@dataclass(frozen=True)
class Registered:
    """One row of the registry: the architecture that a checkpoint names, and the class that serves it."""

    architecture: str
    module: str  # dotted
    class_name: str
    multimodal: bool  # listed among the multimodal models; others may take images too


def read_registry(code: Code) -> dict[str, Registered]:
    """Every architecture of the tree, in the registry's order.

    Raises:
        SourceError: the registry is not there or not the table of tuples that it was so far.
    """
    text = code.text(REGISTRY)
    tables: dict[str, ast.Dict] = {}
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise SourceError(f"{REGISTRY}:{error.lineno}: not valid Python: {error.msg}") from error
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            value = getattr(statement, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.Dict):
                tables[target.id] = value
    if _TABLE not in tables:
        raise SourceError(
            f"{REGISTRY}: the table {_TABLE} of architectures is not there; is this a vLLM of 0.8 or newer?"
        )
    rows: dict[str, Registered] = {}
    _rows(tables, _TABLE, rows)
    return rows


def _rows(tables: dict[str, ast.Dict], name: str, rows: dict[str, Registered]) -> None:
    table = tables[name]
    for key, value in zip(table.keys, table.values, strict=True):
        match key, value:
            case None, ast.Name(id=inner) if inner in tables:
                _rows(tables, inner, rows)
            case None, _:
                continue  # a selection from a table that is spread on its own as well
            case (
                ast.Constant(value=str(architecture)),
                ast.Tuple(elts=[ast.Constant(value=str(module)), ast.Constant(value=str(class_name))]),
            ):
                dotted = module if module.startswith("vllm.") else f"{_FLAT_PACKAGE}.{module}"
                rows[architecture] = Registered(architecture, dotted, class_name, "MULTIMODAL" in name)
            case _:
                raise SourceError(
                    f"{REGISTRY}:{value.lineno}: a row of {name} is not `architecture: (module, class)`"
                )
