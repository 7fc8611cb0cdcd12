"""Every failure that vlmopt expects, with the exit code that the command line gives for it.

The text of an error is one clear line: what happened, where (`file:line`), what to do next. Only a
`DriftError` speaks in several lines. Nothing else than these reaches a user; a traceback is a bug.
"""

from __future__ import annotations

from typing import ClassVar


class VlmoptError(Exception):
    """An expected failure; `exit_code` is what the process returns.

    `output` is what a process wrote before it failed, where one did; the command line keeps it in a file.
    """

    exit_code: ClassVar[int] = 2
    output: str = ""


class UsageError(VlmoptError):
    """The command was asked for something that does not exist or does not go together."""


class SourceError(VlmoptError):
    """A vLLM tree cannot be found, fetched or read."""


class SpecError(VlmoptError):
    """A model spec is malformed, unknown, or names what its source does not have."""


class RuleError(VlmoptError):
    """A rule is malformed, or uses a variable, rule or runtime file that does not exist."""


class DriftError(VlmoptError):
    """An edit does not find its place in this source. Nothing was written."""

    exit_code = 3


class ConflictError(VlmoptError):
    """Two rules want to change the same place. Nothing was written."""

    exit_code = 3


class EquivalenceError(VlmoptError):
    """A fork does not give what its contract promises."""

    exit_code = 1
