"""The review of a fork as one HTML page: no script, nothing loaded from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from vlmopt.fork.series import Patch
from vlmopt.plan import Status
from vlmopt.report.wording import contract_words
from vlmopt.rules import Contract

if TYPE_CHECKING:
    from vlmopt.fork import Fork


def page(fork: Fork, patches: Mapping[str, Patch]) -> str:
    """The page, as text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rules = {rule.id: rule for rule in fork.lock.rules}
    return environment.get_template("review.html.j2").render(
        lock=fork.lock,
        patches=[(rules[name], patch) for name, patch in patches.items()],
        left=[rule for rule in fork.lock.rules if rule.status != Status.applied],
        contracts={contract.value: contract_words(contract) for contract in Contract},
    )
