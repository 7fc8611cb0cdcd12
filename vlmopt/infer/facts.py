"""The facts of one architecture that its code states: classes, fields of the batch, prompt targets."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from vlmopt.infer.code import Code, Definition, dotted_name
from vlmopt.infer.reach import FunctionNode, Site, method, reachable

IMAGE_MODALITIES = ("image", "vision_chunk")
Kind = Literal["text", "token", "tokens", "place"]
Lineage = Sequence[Definition]
_CONFIG = "MultiModalFieldConfig"
_ANY_PROCESSOR = ("ProcessorMixin", "AutoProcessor")
_UPDATES = ("PromptReplacement", "PromptInsertion")


@dataclass(frozen=True)
class Registration:
    """What `@MULTIMODAL_REGISTRY.register_processor` names; several where a builder picks at run time."""

    processors: tuple[Definition, ...]
    infos: tuple[Definition, ...]


@dataclass(frozen=True)
class Field:
    """One tensor of the batch, how items are cut from it (`batched`, ...), its modality (None: computed)."""

    name: str
    kind: str
    modality: str | None


@dataclass(frozen=True)
class Target:
    """What vLLM looks for in the prompt: a text, one token id, several, a fixed place; None: not told."""

    kind: Kind | None
    path: str
    line: int
    source: str


def registration(code: Code, lineage: Lineage) -> Registration | None:
    """The processor registered for a model class or the nearest of its bases; None when there is none."""
    for cls in lineage:
        for decorator in getattr(cls.node, "decorator_list", ()):
            name = dotted_name(decorator.func) if isinstance(decorator, ast.Call) else None
            if isinstance(decorator, ast.Call) and (name or "").endswith(".register_processor"):
                keywords = {keyword.arg: keyword.value for keyword in decorator.keywords}
                processor = decorator.args[0] if decorator.args else keywords.get("processor")
                return Registration(
                    _classes(code, cls.path, processor), _classes(code, cls.path, keywords.get("info"))
                )
    return None


def _classes(code: Code, path: str, expression: ast.expr | None) -> tuple[Definition, ...]:
    """The classes that a decorator's argument stands for: itself, or those that a builder returns."""
    name = dotted_name(expression)
    for definition in code.resolve(path, name)[:1] if name else []:
        if definition.is_class:
            return (definition,)
        returned: list[Definition] = []
        for node in ast.walk(definition.node):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                called = dotted_name(node.value.func)
                found = code.resolve(definition.path, called) if called else []
                returned += [cls for cls in found[:1] if cls.is_class and cls not in returned]
        return tuple(returned)
    return ()


def accepts_images(code: Code, info: Lineage, fields: Sequence[Field]) -> bool:
    """Whether the architecture takes images: its stated limits or its batch fields name them."""
    sites = reachable(code, info, "get_supported_mm_limits", "get_supported_mm_limits")
    constants = (node for site in sites for node in ast.walk(site.node) if isinstance(node, ast.Constant))
    if any(constant.value in IMAGE_MODALITIES for constant in constants):
        return True
    return any(field.modality in IMAGE_MODALITIES for field in fields)


def batch_fields(code: Code, processor: Lineage, info: Lineage) -> tuple[Field, ...]:
    """The fields of `_get_mm_fields_config`, in the order of the text, of every modality."""
    fields: dict[str, Field] = {}
    for site in reachable(code, processor, "_get_mm_fields_config", _CONFIG, info):
        for name, value in _named_values(site.node):
            field = _field(name, value, site.node)
            if field:
                fields.setdefault(name, field)
    return tuple(fields.values())


def _field(name: str, value: ast.expr, function: ast.AST) -> Field | None:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=kind)) if owner == _CONFIG:
            arguments = [*value.args, *(k.value for k in value.keywords if k.arg == "modality")]
            modality = arguments[0] if arguments else None
            literal = modality.value if isinstance(modality, ast.Constant) else None
            return Field(name, kind, literal if isinstance(literal, str) else None)
        case ast.Name(id=local):
            for node in ast.walk(function):
                match node:
                    case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Call() as call) if bound == local:
                        return _field(name, call, function)
                    case _:
                        pass
            return None
        case _:
            return None


def _named_values(root: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """`name=value` of calls, `"name": value` of dicts and `x["name"] = value`, in the order of the text."""
    found: list[tuple[str, ast.expr]] = []
    for node in ast.walk(root):
        match node:
            case ast.Call(keywords=keywords):
                found += [(k.arg, k.value) for k in keywords if k.arg]
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        found.append((key.value, value))
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str(name)))], value=value):
                found.append((name, value))
            case _:
                pass
    return iter(sorted(found, key=lambda item: (item[1].lineno, item[1].col_offset)))


def image_targets(code: Code, processor: Lineage, info: Lineage) -> tuple[Target, ...]:
    """What `_get_prompt_updates` searches for where an image stands, each different kind once."""
    targets: list[Target] = []
    for site in reachable(code, processor, "_get_prompt_updates", "Prompt", info):
        for node in ast.walk(site.node):
            if isinstance(node, ast.Call) and dotted_name(node.func) in _UPDATES:
                keywords = {keyword.arg: keyword.value for keyword in node.keywords}
                modality = keywords.get("modality") or (node.args[0] if node.args else None)
                target = keywords.get("target") or (node.args[1] if len(node.args) > 1 else None)
                other = isinstance(modality, ast.Constant) and modality.value not in IMAGE_MODALITIES
                if target is not None and not other:
                    kind = _target_kind(target, site, node, 0)
                    if all(known.kind != kind for known in targets):
                        targets.append(Target(kind, site.path, target.lineno, ast.unparse(target)))
    return tuple(targets)


def _target_kind(target: ast.expr, site: Site, within: ast.AST, depth: int) -> Kind | None:
    match target:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return "text"
        case ast.List(elts=[ast.Starred()]):
            return None
        case ast.List(elts=[_]):
            return "token"
        case ast.List(elts=[_, *_]):
            return "tokens"
        case ast.Call(func=func):
            name = (dotted_name(func) or "").rpartition(".")
            if name[0].endswith("PromptIndexTargets"):
                return "place"
            if "encode" in name[2]:
                # `hf_processor.image_token` and its like hold one token of the vocabulary, by convention.
                named = [a for a in target.args if isinstance(a, ast.Attribute) and a.attr.endswith("token")]
                return "token" if named else "text"
            return _values_kind(name[2], site, within, depth) if not name[0] else None
        case ast.Name(id=name):
            return _values_kind(name, site, within, depth)
        case ast.Attribute(attr=name):
            return "text" if name.endswith(("token", "placeholder")) else None
        case _:
            return None


def _values_kind(name: str, site: Site, within: ast.AST, depth: int) -> Kind | None:
    """The kind that all values of a local name have: its assignments, or what a local function returns."""
    if depth > 3:
        return None
    kinds = set()
    for node in ast.walk(site.node):
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                kinds.add(_target_kind(value, site, within, depth + 1))
            case ast.FunctionDef(name=bound) if bound == name:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        kinds.add(_target_kind(inner.value, site, within, depth + 1))
            case _:
                pass
    return kinds.pop() if len(kinds) == 1 else None


def hf_processor(code: Code, info: Lineage) -> str | None:
    """The Hugging Face processor's class as `get_hf_processor` names it, dotted; None when it names none."""
    site = method(info, "get_hf_processor")
    if site is None or not isinstance(site.node, FunctionNode):
        return None
    for node in ast.walk(site.node):
        if isinstance(node, ast.Call) and node.args and dotted_name(node.func) == "self.ctx.get_hf_processor":
            name = _full_name(code, site.path, dotted_name(node.args[0]))
            return None if name and name.endswith(_ANY_PROCESSOR) else name
    for node in ast.walk(site.node):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            name = dotted_name(node.value.func)
            if name and name.rpartition(".")[2][:1].isupper():
                return _full_name(code, site.path, name)
    name = _full_name(code, site.path, dotted_name(site.node.returns))
    return None if name and name.endswith(_ANY_PROCESSOR) else name


def _full_name(code: Code, path: str, name: str | None) -> str | None:
    if name is None:
        return None
    for definition in code.resolve(path, name)[:1]:
        module = definition.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f"{module}.{definition.name}"
    return code.origin(path, name) or name
