"""Reads a fork's patch series back: mail by mail, file by file, line by line."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vlmopt.errors import SourceError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

Mark = Literal["hunk", "same", "added", "removed"]


@dataclass(frozen=True)
class Line:
    """One line of a diff. `old` and `new` are line numbers, None where the line is not on that side."""

    mark: Mark
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True)
class FileDiff:
    """The change of one file. `ends_with_newline` says it of the new text; None where that is as before."""

    path: str
    is_new: bool
    lines: tuple[Line, ...]
    ends_with_newline: bool | None = None

    @property
    def added(self) -> int:
        return sum(line.mark == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.mark == "removed" for line in self.lines)

    def apply(self, before: str) -> str:
        """The file after this change; `before` is "" for a new file.

        Raises:
            SourceError: the text is not the one that the change was made on.
        """
        old = before.removesuffix("\n").split("\n") if before else []
        lines = self._turned(old, back=False)
        ends = self.ends_with_newline
        if ends is None:
            ends = before.endswith("\n") or not before
        return "\n".join(lines) + ("\n" if ends and lines else "")

    def undo(self, after: Sequence[str]) -> list[str]:
        """The lines of the file before this change, from its lines after it.

        Raises:
            SourceError: these are not the lines that the change made.
        """
        return self._turned(after, back=True)

    def _turned(self, given: Sequence[str], *, back: bool) -> list[str]:
        """The lines on the other side of this change; `back` from those after it to those before."""
        found: list[str] = []
        at = 0
        for line in self.lines:
            here, there = (line.new, line.old) if back else (line.old, line.new)
            if line.mark == "hunk":
                head = _HUNK.match(line.text)
                assert head is not None
                first, count = (head[3], head[4]) if back else (head[1], head[2])
                start = int(first) - (count != "0")
                found += given[at:start]
                at = start
            elif here is not None:
                if list(given[at : at + 1]) != [line.text]:
                    raise SourceError(
                        f"a patch does not fit {self.path}: line {here} is another; write the fork anew with "
                        "`vlmopt apply`"
                    )
                at = here
            if there is not None:
                found.append(line.text)
        return [*found, *given[at:]]


@dataclass(frozen=True)
class Patch:
    """One mail of the series: what a recipe does and why, and its diff (`text`, as in the mail)."""

    title: str
    why: str
    text: str
    files: tuple[FileDiff, ...]


def read_patch(path: Path) -> Patch:
    """Reads one patch file.

    Raises:
        SourceError: the file cannot be read, or is no mail with a diff.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(
            f"cannot read {path}: {error.strerror}; write the fork anew with `vlmopt apply`"
        ) from None
    _, _, mail = data.partition(b"\n")
    message = email.message_from_bytes(mail, policy=email.policy.default)
    payload = message.get_payload(decode=True)
    body = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    why, cut, rest = body.partition("\n---\n")
    if not data.startswith(b"From ") or not cut:
        raise SourceError(f"{path} is no patch of a fork; write the fork anew with `vlmopt apply`")
    text = rest.lstrip("\n").rpartition("-- \n")[0]
    why = re.sub(r"\n\nContract: [^\n]*$", "", why.strip())  # the lock says it too
    title = re.sub(r"^\[PATCH [^]]*\] ", "", str(message["Subject"]))
    return Patch(title, why, text, tuple(_files(text)))


def _files(text: str) -> Iterator[FileDiff]:
    for part in re.split(r"^(?=diff --git )", text, flags=re.MULTILINE):
        head = re.match(r"diff --git a/(.+) b/\1\n", part)
        if head:
            is_new = "\nnew file mode" in part.partition("@@")[0]
            yield FileDiff(head[1], is_new, tuple(_lines(part)), _newline_at_end(part, is_new))


def _newline_at_end(part: str, is_new: bool) -> bool | None:
    without = set(re.findall(r"^([-+ ]).*\n\\ No newline at end of file$", part, re.MULTILINE))
    if without:
        return without == {"-"}
    return True if is_new else None


def _lines(part: str) -> Iterator[Line]:
    old = new = 0
    inside = False
    for text in part.split("\n"):
        hunk = _HUNK.match(text)
        if hunk:
            inside = True
            old, new = int(hunk[1]), int(hunk[3])
            yield Line("hunk", text)
        elif inside and text.startswith("+"):
            yield Line("added", text[1:], new=new)
            new += 1
        elif inside and text.startswith("-"):
            yield Line("removed", text[1:], old=old)
            old += 1
        elif inside and text.startswith(" "):
            yield Line("same", text[1:], old, new)
            old, new = old + 1, new + 1
