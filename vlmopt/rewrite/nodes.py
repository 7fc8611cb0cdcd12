"""What of a libcst node is code: everything but layout, comments, optional commas and parentheses.

`parts` gives a node as a flat tuple in which an indented block and a one-line suite look alike, the
parameters of a function are one sequence, and so are the bases and keywords of a class.
"""

from __future__ import annotations

import ast
import dataclasses
from functools import cache
from typing import TypeAlias

import libcst as cst

Part: TypeAlias = "cst.CSTNode | str | bool | None | tuple[cst.CSTNode, ...]"
Definition: TypeAlias = cst.FunctionDef | cst.ClassDef

# Fields that hold layout only. Fields whose name begins with `whitespace` are layout too.
_LAYOUT = frozenset(
    {
        *(
            "leading_lines",
            "lines_after_decorators",
            "trailing_whitespace",
            "leading_whitespace",
            "header",
            "footer",
        ),
        *("lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace"),
        *("comma", "trailing_comma", "semicolon", "dot", "colon", "first_colon", "second_colon", "separator"),
        *("indent", "encoding", "default_indent", "default_newline", "has_trailing_newline"),
    }
)
_BLOCKS = (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)
Block: TypeAlias = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite

# Expressions that keep their meaning beside any operator.
_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.SimpleString,
    cst.FormattedString,
    cst.Integer,
    cst.Float,
    cst.Imaginary,
    cst.Ellipsis,
    cst.List,
    cst.Set,
    cst.Dict,
    cst.ListComp,
    cst.SetComp,
    cst.DictComp,
)
# Parents that hold a child next to an operator, a dot or a bracket.
_OPERATORS = (
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.ComparisonTarget,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.Await,
    cst.IfExp,
    cst.StarredElement,
    cst.StarredDictElement,
    cst.CompFor,
    cst.CompIf,
)
# Expressions that stand without parentheses in a few places only, and these places.
_SHY = (cst.Tuple, cst.GeneratorExp, cst.NamedExpr, cst.Yield)
_ROOMY = (cst.Assign, cst.AnnAssign, cst.Return, cst.Expr)


def is_torn(node: cst.CSTNode, parent: cst.CSTNode | None) -> bool:
    """Whether an expression that has no parentheses needs some to stand as a child of `parent`."""
    if isinstance(node, _SHY) and not isinstance(parent, _ROOMY):
        return True
    if isinstance(node, cst.Integer) and isinstance(parent, cst.Attribute):
        return True
    return isinstance(parent, _OPERATORS) and not isinstance(node, _ATOMS)


@cache
def code_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The names of the fields of a node type that hold code, in source order where libcst has it so."""
    names = (field.name for field in dataclasses.fields(kind))
    return tuple(
        name
        for name in names
        if name not in _LAYOUT
        and not name.startswith("whitespace")
        and (name != "equal" or kind.__name__.endswith("StringExpression"))
    )


def statements(block: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The statements of a block, `a; b` and one-line suites flattened."""
    flat: list[cst.CSTNode] = []
    for statement in block.body:  # type: ignore[attr-defined]
        if isinstance(statement, cst.SimpleStatementLine):
            flat.extend(statement.body)
        else:
            flat.append(statement)
    return tuple(flat)


def parameters(params: cst.Parameters) -> tuple[cst.CSTNode, ...]:
    """All parameters of a function in the order in which they are written, with the markers `/` and `*`."""
    flat: list[cst.CSTNode] = [*params.posonly_params]
    if isinstance(params.posonly_ind, cst.CSTNode):
        flat.append(params.posonly_ind)
    flat.extend(params.params)
    if isinstance(params.star_arg, cst.CSTNode):
        flat.append(params.star_arg)
    flat.extend(params.kwonly_params)
    if params.star_kwarg is not None:
        flat.append(params.star_kwarg)
    return tuple(flat)


def parts(node: cst.CSTNode) -> tuple[Part, ...]:
    """The code of a node: child nodes, sequences of them, and plain values."""
    if isinstance(node, _BLOCKS):
        return (statements(node),)
    if isinstance(node, cst.Parameters):
        return (parameters(node),)
    if isinstance(node, cst.ClassDef):
        arguments = (*node.bases, *node.keywords)
        return (tuple(node.decorators), node.name, arguments, node.body, node.type_parameters)
    values: list[Part] = []
    for name in code_fields(type(node)):
        value = getattr(node, name)
        if type(value) is cst.MaybeSentinel:
            values.append(None)
        elif name == "asynchronous":
            values.append(value is not None)
        elif isinstance(value, list):
            values.append(tuple(value))
        else:
            values.append(value)
    return tuple(values)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The child nodes that hold code. Unlike in `parts`, the lines of simple statements are kept, so that the
    members of a block are its children."""
    if isinstance(node, cst.Parameters):
        return list(parameters(node))
    found: list[cst.CSTNode] = []
    # Exact types, since an instance check against the abstract node class is what a walk would spend its
    # time on.
    for name in code_fields(type(node)):
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            found.extend(value)
        elif kind is not str and value is not None and kind is not bool and kind is not cst.MaybeSentinel:
            found.append(value)
    return found


def same_type(left: cst.CSTNode, right: cst.CSTNode) -> bool:
    """Whether two nodes are of one type; a block and a one-line suite are."""
    return type(left) is type(right) or (isinstance(left, cst.BaseSuite) and isinstance(right, cst.BaseSuite))


def string_value(literal: str) -> object:
    """What a string literal means, so that quote styles and escapes do not matter; the literal when
    unreadable."""
    try:
        return ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return literal


def is_docstring(statement: cst.CSTNode) -> bool:
    """Whether a statement is a string on its own."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        statement = statement.body[0]
    return isinstance(statement, cst.Expr) and isinstance(
        statement.value, cst.SimpleString | cst.ConcatenatedString
    )
