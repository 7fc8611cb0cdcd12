"""Imports that an edit needs: which are missing, and where they go."""

from __future__ import annotations

import libcst as cst

from vlmopt.rewrite.edits import Splice
from vlmopt.rewrite.errors import PatternError
from vlmopt.rewrite.nodes import Definition, is_docstring
from vlmopt.rewrite.region import Region

# What one name of an import statement makes available: ("a.b", None, "a") for `import a.b`, ("a", "b", "c")
# for `from a import b as c`.
Imported = tuple[str, str | None, str]


def parse_import(code: str) -> cst.Import | cst.ImportFrom:
    """One import statement. Raises PatternError when it is something else."""
    try:
        body = cst.parse_module(code.strip() + "\n").body
    except cst.ParserSyntaxError:
        body = ()
    line = body[0] if len(body) == 1 else None
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        statement = line.body[0]
        if isinstance(statement, cst.Import | cst.ImportFrom) and not isinstance(
            getattr(statement, "names", None), cst.ImportStar
        ):
            return statement
    raise PatternError(f"imports: {code.strip()!r} is not one import statement")


def imported(statement: cst.Import | cst.ImportFrom) -> dict[Imported, str]:
    """What an import statement makes available, each with the code of its name alone."""
    if isinstance(statement.names, cst.ImportStar):
        return {}
    source = ""
    if isinstance(statement, cst.ImportFrom):
        module = "" if statement.module is None else dotted(statement.module)
        source = "." * len(statement.relative) + module
    found: dict[Imported, str] = {}
    for alias in statement.names:
        name = dotted(alias.name)
        local = dotted(alias.asname.name) if alias.asname else name
        code = f"{name} as {local}" if alias.asname else name
        key = (source, name, local) if source else (name, None, local)
        found[key] = code
    return found


def dotted(node: cst.CSTNode) -> str:
    """The text of `a.b.c`."""
    if isinstance(node, cst.Attribute):
        return f"{dotted(node.value)}.{node.attr.value}"
    assert isinstance(node, cst.Name)
    return node.value


def missing_imports(region: Region, wanted: tuple[str, ...], edit: str) -> tuple[Splice, ...]:
    """Splices for the imports that the top of a file lacks, behind its last import there.

    `region` begins with the file. Imports below the first class or function do not count, they come too
    late for it.
    """
    have: set[Imported] = set()
    at = region.start
    for statement in region.module.body:
        if isinstance(statement, Definition):
            break
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        imports = [small for small in statement.body if isinstance(small, cst.Import | cst.ImportFrom)]
        if imports or (at == region.start and is_docstring(statement)):
            at = region.outer(statement)[1]
        for small in imports:
            have.update(imported(small))
    if at == region.start and region.module.body:
        at = region.outer(region.module.body[0])[0]
    newline = region.newline_at(at)
    splices = []
    for code in wanted:
        asked = parse_import(code)
        lacking = {key: name for key, name in imported(asked).items() if key not in have}
        if not lacking:
            continue
        have.update(lacking)
        line = _write(asked, list(lacking.values()))
        ended = at == region.start or region.text[at - 1] in "\r\n"
        text = line + newline if ended else newline + line
        splices.append(Splice(at, at, text, edit, "import"))
    return tuple(splices)


def _write(statement: cst.Import | cst.ImportFrom, names: list[str]) -> str:
    joined = ", ".join(names)
    if isinstance(statement, cst.Import):
        return f"import {joined}"
    module = "" if statement.module is None else dotted(statement.module)
    return f"from {'.' * len(statement.relative)}{module} import {joined}"
