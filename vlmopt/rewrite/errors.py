"""What can go wrong in the engine, each with a message of one line."""

from __future__ import annotations


class PatternError(ValueError):
    """A pattern, scope, constraint or template is malformed; the message names the line inside of it."""


class SyntaxErrorInSource(ValueError):
    """The text to rewrite is not Python that can be parsed; the message begins with `path:line:`."""


class Conflict(ValueError):
    """Two splices touch the same characters; the message names both owners and the line."""
