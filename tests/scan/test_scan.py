"""The scan: every image-capable architecture against every recipe; drift and damage are rows, not errors."""

from typing import Any

import pytest

from tests.infer.small_tree import MODEL, MODELS, PROCESSOR, small_tree
from tests.support.models import own_specs
from vlmopt.errors import SourceError
from vlmopt.plan import Status
from vlmopt.rules import Rule, load_rules
from vlmopt.scan import Scan, scan
from vlmopt.sources import find_installed
from vlmopt.specs import Spec, list_specs

ROWS = {
    "First": ("tiny", "Model"),
    "Twin": ("tiny", "Model"),
    "Deaf": ("deaf", "Model"),
    "Late": ("late", "Model"),
}
FILES = {
    "tiny.py": PROCESSOR + MODEL,
    "deaf.py": PROCESSOR.replace('"image"', '"audio"') + MODEL,
    "late.py": PROCESSOR.replace("batched", "flat") + MODEL,
}


def rule(id_: str, match: str, **more: Any) -> Rule:
    edit = {
        "file": "${model.processor_module}",
        "within": "class ${model.processor_class}",
        "match": match,
        "replace": 'MultiModalFieldConfig.packed("image")',
        "already": 'MultiModalFieldConfig.flat("image")',
    }
    return Rule.model_validate(
        {"id": id_, "title": "t", "why": "w", "contract": "exact", "edits": [edit], **more}
    )


RULES = [
    rule("packs", 'MultiModalFieldConfig.batched("image")'),
    rule("never", "nothing_like_it()"),
    rule("known", 'MultiModalFieldConfig.batched("image")', when={"images.geometry": "fixed"}),
    rule("loose", 'MultiModalFieldConfig.batched("image")', contract="approximate", when={"name": "other"}),
]

SPEC = Spec.model_validate(
    {
        "name": "first-of-all",
        "title": "First",
        "architecture": "First",
        "model": {
            "module": f"{MODELS}/tiny.py",
            "class": "Model",
            "processor_module": f"{MODELS}/tiny.py",
            "processor_class": "Processor",
        },
        "images": {
            "geometry": "fixed",
            "library": "pillow",
            "convert": "before-resize",
            "resample": "bicubic",
            "outputs": {"pixel_values": "pixels"},
        },
    }
)


def statuses(result: Scan) -> dict[str, list[str]]:
    return {
        row.architecture: [finding.status.value for finding in row.findings.values()] for row in result.rows
    }


def test_the_table() -> None:
    result = scan(small_tree(FILES, ROWS), [SPEC], RULES, workers=1)
    assert result.recipes == ("known", "loose", "never", "packs")
    assert [(row.architecture, row.spec) for row in result.rows] == [
        ("First", "first-of-all"),
        ("Twin", None),
        ("Late", None),
    ]
    assert statuses(result) == {
        "First": ["applied", "not-applicable", "drifted", "drifted"],  # packs wants what known has taken
        "Twin": ["not-applicable", "not-applicable", "drifted", "applied"],
        "Late": ["not-applicable", "not-applicable", "already-upstream", "already-upstream"],
    }
    assert result.drifted
    assert result.counts()[Status.drifted] == 3
    assert result.counts("packs") == {"drifted": 1, "applied": 1, "already-upstream": 1}
    reason = result.rows[0].findings["never"].reason
    assert reason == f"edit 1: expected 1 match, found 0 in {MODELS}/tiny.py"


def test_more_processes_give_the_same_table() -> None:
    rows = {f"Arch{n}": (f"m{n}", "Model") for n in range(40)}
    files = {f"m{n}.py": PROCESSOR + MODEL for n in range(40)}
    ticks: list[tuple[str, int, int]] = []
    alone = scan(small_tree(files, rows), [], RULES, workers=1)
    together = scan(small_tree(files, rows), [], RULES, workers=3, progress=lambda *tick: ticks.append(tick))
    assert together == alone
    assert [row.architecture for row in together.rows] == list(rows)
    assert [done for _, done, _ in ticks] == sorted(done for _, done, _ in ticks)
    assert ticks[-1][1:] == (40, 40)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_cannot_be_parsed_is_a_row(workers: int) -> None:
    files = {**FILES, "late.py": "class Model(:\n"}
    result = scan(small_tree(files, ROWS), [SPEC], RULES, workers=workers)
    late = result.rows[-1]
    assert (late.architecture, late.findings) == ("Late", {})
    assert late.problem is not None
    assert "late.py:1: not valid Python" in late.problem


def test_a_tree_without_a_registry_is_an_error() -> None:
    tree = small_tree(FILES, ROWS)
    tree.files.clear()
    with pytest.raises(SourceError, match=r"registry\.py is not in vLLM"):
        scan(tree, [], RULES)


def test_files_of_a_tree_behind_a_network_are_asked_for_together() -> None:
    tree = small_tree(FILES, ROWS)
    scan(tree, [], RULES, workers=1)
    assert {f"{MODELS}/{name}" for name in FILES} <= set(tree.prefetched)


@pytest.mark.engine
@pytest.mark.slow
def test_all_of_vllm_without_drift() -> None:
    tree = find_installed()
    assert tree is not None
    result = scan(tree, list_specs(), load_rules(), workers=2)
    assert len(result.rows) >= 95
    assert {row.spec for row in result.rows} >= {spec.name for spec in own_specs()}
    assert [(row.architecture, row.problem) for row in result.rows if row.problem] == []
    drifts = [
        (r.architecture, n, f.reason)
        for r in result.rows
        for n, f in r.findings.items()
        if f.status == "drifted"
    ]
    assert drifts == []
