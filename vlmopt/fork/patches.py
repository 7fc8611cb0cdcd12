"""The patch series of a fork: one mail per applied rule, for `git am` on a checkout of that release."""

from __future__ import annotations

import base64
import difflib
import hashlib
import textwrap
from collections.abc import Mapping
from email.header import Header
from typing import TYPE_CHECKING

from vlmopt.fork.lock import own_version

if TYPE_CHECKING:
    from vlmopt.plan import Plan, RulePlan
    from vlmopt.rules import Rule

_SEPARATOR = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"
_DATE = "Sat, 01 Jan 2000 00:00:00 +0000"
_WIDTH = 76
# Where a line of a mail's text starts so, git takes the patch to begin, or the mail to end.
_CUTS = ("---", "diff -", "Index: ", "From ")


def patch_files(plan: Plan) -> dict[str, str]:
    """The patches by their path in the fork, `patches/0001-ID.patch`, in order.

    Applied one after the other to the source, they give the plan's files.
    """
    applied = [entry for entry in plan.rules if entry.status == "applied"]
    texts = {path: change.before for path, change in plan.files.items()}
    carried: set[str] = set()
    patches = {}
    for number, entry in enumerate(applied, 1):
        diffs = []
        for path, change in sorted(plan.files.items()):
            after = dict(change.steps).get(entry.rule.id)
            if after is not None and after != texts[path]:
                diffs.append(file_diff(path, texts[path], after))
                texts[path] = after
        for path in _new_files(entry, plan.runtime_files):
            if path not in carried:
                carried.add(path)
                diffs.append(file_diff(path, None, plan.runtime_files[path]))
        name = f"patches/{number:04d}-{entry.rule.id}.patch"
        patches[name] = _mail(entry.rule, number, len(applied), "".join(diffs))
    return patches


def _new_files(entry: RulePlan, runtime_files: Mapping[str, str]) -> list[str]:
    """Runtime files that a rule brings; the package's own `__init__.py` comes with the first of them."""
    names = {"__init__.py", *entry.rule.runtime} if entry.rule.runtime else set()
    return sorted(path for path in runtime_files if path.rpartition("/")[2] in names)


def file_diff(path: str, before: str | None, after: str) -> str:
    """The unified diff of one file with git's headers; `before` is None for a new file."""
    old = "0" * 40 if before is None else _blob(before)
    head = f"diff --git a/{path} b/{path}\n"
    head += "new file mode 100644\n" if before is None else ""
    head += f"index {old}..{_blob(after)}\n"
    lines = difflib.unified_diff(
        _lines(before or ""),
        _lines(after),
        fromfile=f"a/{path}" if before is not None else "/dev/null",
        tofile=f"b/{path}",
    )
    return head + "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    """Lines as git has them: they end at a line feed, and nowhere else."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _blob(text: str) -> str:
    data = text.encode("utf-8")
    return hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def _mail(rule: Rule, number: int, count: int, diff: str) -> str:
    subject = " ".join(f"{rule.id}: {rule.title}".split())
    subject = subject if subject.isascii() else Header(subject, "utf-8", maxlinelen=200).encode()
    bound = f" ({rule.bound:g})" if rule.bound else ""
    text = f"{_message(rule.why)}\n\nContract: {rule.contract.value}{bound}\n"
    body = f"{text}---\n\n{diff}-- \nvlmopt {own_version()}\n\n"
    # Carriage returns at line ends would be lost on the way unless the text is packed.
    packed = "\r" in body
    headers = [
        _SEPARATOR,
        "From: vlmopt <vlmopt@localhost>",
        f"Date: {_DATE}",
        f"Subject: [PATCH {number}/{count}] {subject}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        f"Content-Transfer-Encoding: {'base64' if packed else '8bit'}",
    ]
    if packed:
        body = base64.encodebytes(body.encode()).decode()
    return "\n".join(headers) + "\n\n" + body


def _message(text: str) -> str:
    paragraphs = [textwrap.fill(part, _WIDTH) for part in text.strip().split("\n\n")]
    lines = "\n\n".join(paragraphs).split("\n")
    return "\n".join(f" {line}" if line.startswith(_CUTS) else line for line in lines)
