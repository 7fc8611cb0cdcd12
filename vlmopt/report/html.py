"""The review of a fork as one HTML page: nothing is loaded, and no script but its own runs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vlmopt.report import measured
from vlmopt.report.evidence import UNMEASURED, UNVERIFIED, Evidence
from vlmopt.report.flames import inline_flame
from vlmopt.report.sides import Hunk, hunks
from vlmopt.report.story import Recipe
from vlmopt.report.versions import versions

if TYPE_CHECKING:
    from vlmopt.fork.series import FileDiff, Patch
    from vlmopt.report.review import Review

_PAGE = Path(__file__).parent / "page"


@dataclass(frozen=True)
class ShownFile:
    """One file of a patch."""

    path: str
    is_new: bool
    added: int
    removed: int
    hunks: list[Hunk]


@dataclass(frozen=True)
class ShownRecipe:
    """One recipe that was applied, with its place among them."""

    number: int
    recipe: Recipe
    added: int
    removed: int
    files: list[ShownFile]


def page(review: Review) -> str:
    """The page, as text."""
    style = (_PAGE / "review.css").read_text("utf-8")
    script = "".join((_PAGE / name).read_text("utf-8") for name in ("review.js", "flames.js"))
    environment = Environment(
        loader=FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    bench = review.evidence.bench
    return environment.get_template("review.html.j2").render(
        story=review.story,
        evidence=review.evidence,
        only=review.only,
        shown=_shown(review),
        headlines=measured.headlines(bench) if bench else [],
        setting=measured.setting(bench) if bench else [],
        noise=measured.noise_words(bench) if bench else [],
        tables=measured.all_tables(review.evidence),
        flames=_flames(review.evidence),
        share=_share,
        words={"unverified": UNVERIFIED, "unmeasured": UNMEASURED},
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )


def _policy(style: str, script: str) -> str:
    """No network, and of styles and scripts those that the page came with, by their hashes."""
    parts = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def _flames(evidence: Evidence) -> list[tuple[str, Markup | None]]:
    """Where each flame graph lies, in words, and the picture."""
    return [(measured.flame_words(side), inline_flame(svg)) for side, svg in evidence.flames.items()]


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _shown(review: Review) -> dict[str, ShownRecipe]:
    found = {}
    texts = versions(review.fork, review.series)
    for number, recipe in enumerate(review.story.applied, 1):
        patch = review.patches.get(recipe.id)
        if patch is not None:
            files = [
                ShownFile(
                    file.path,
                    file.is_new,
                    file.added,
                    file.removed,
                    hunks(file, texts.get((recipe.id, file.path))),
                )
                for file in _in_order(patch)
            ]
            old = [file for file in files if not file.is_new]
            added, removed = sum(f.added for f in old), sum(f.removed for f in old)
            found[recipe.id] = ShownRecipe(number, recipe, added, removed, files)
    return found


def _in_order(patch: Patch) -> Iterable[FileDiff]:
    """What changes before what is new."""
    return sorted(patch.files, key=lambda file: file.is_new)


def _share(value: float, rows: Iterable[measured.Row]) -> str:
    """The value as a share of the largest of the rows, for the width of a bar."""
    most = max((median for row in rows for median in row.medians.values()), default=0)
    return f"{100 * value / most:.2f}%" if most else "0%"
