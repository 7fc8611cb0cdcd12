"""After `apply`, the command that serves names what there is to serve."""

from dataclasses import replace
from pathlib import Path

import pytest

from vlmopt import console
from vlmopt.fork import Fork
from vlmopt.plan import Plan
from vlmopt.report.terminal import next_steps
from vlmopt.specs import Spec

from .cases import PACKAGE

CHECKPOINT = {"small": {"checkpoint": f"{PACKAGE}/trained"}}


@pytest.mark.parametrize(
    ("facts", "served"),
    [
        ({"hub": []}, "MODEL"),
        ({"hub": [], **CHECKPOINT}, "{root}/acme_vlm/trained"),
        ({"hub": ["acme/tiny", "acme/other"], **CHECKPOINT}, "acme/tiny"),
    ],
)
def test_what_is_served(
    facts: dict[str, object],
    served: str,
    plan: Plan,
    fork: Fork,
    plugin: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = Spec.model_validate(plan.spec.facts() | facts)
    console.show(next_steps(replace(plan, spec=spec), fork))
    words = capsys.readouterr().out.splitlines()[2].split(" -- ")
    assert words[1] == f"vllm serve {served.format(root=plugin)}"
