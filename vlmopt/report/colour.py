"""Syntax colour: every line of a file as pieces of text, each with a class of the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Token, _TokenType, is_token_subtype
from pygments.util import ClassNotFound

Piece = tuple[str, str]
"""A class, "" for none, and the text."""

# The first that a token belongs to counts.
_CLASSES: Sequence[tuple[_TokenType, str]] = (
    (Token.Comment, "c"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Name.Builtin.Pseudo, "k"),
    (Token.Name.Function, "f"),
    (Token.Name.Class, "f"),
    (Token.Name.Decorator, "d"),
)


def coloured_lines(path: str, lines: Sequence[str]) -> list[list[Piece]]:
    """The lines of a file, coloured as the language that its name says.

    Args:
        path: the file's name.
        lines: all of the file, so that a string over many lines is known for what it is.
    """
    found: list[list[Piece]] = [[]] if lines else []
    # Not get_tokens(), which changes line ends.
    for _, kind, text in _lexer(path).get_tokens_unprocessed("\n".join(lines)):
        name = next((name for token, name in _CLASSES if is_token_subtype(kind, token)), "")
        first, *rest = text.split("\n")
        if first:
            found[-1].append((name, first))
        for line in rest:
            found.append([(name, line)] if line else [])
    return found


def _lexer(path: str) -> Lexer:
    try:
        return get_lexer_for_filename(path)
    except ClassNotFound:
        return TextLexer()
