"""The engine on real files: those of an installed vLLM, read as text."""

from __future__ import annotations

import importlib.util
import multiprocessing
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import libcst as cst
import pytest
import yaml

from tests.rewrite.helpers import apply, edit
from vlmopt.rewrite import Edit, Module, Outcome, Probe
from vlmopt.rewrite.outline import outline
from vlmopt.rewrite.region import Region

SPEC = importlib.util.find_spec("vllm")
pytestmark = pytest.mark.skipif(SPEC is None, reason="no vLLM is installed")


def root() -> Path:
    assert SPEC is not None
    assert SPEC.submodule_search_locations
    return Path(next(iter(SPEC.submodule_search_locations)))


def read(path: Path) -> str:
    return path.read_bytes().decode()


EDITS = [
    (path, edit(action, match, code, within))
    for path, action, match, code, within in yaml.safe_load(
        Path(__file__).with_name("vllm_edits.yaml").read_text("utf-8")
    )
]


@pytest.mark.parametrize(("path", "one"), EDITS)
def test_an_edit_hits_is_valid_and_present_afterwards(path: str, one: Edit) -> None:
    text = read(root() / path)
    out, (result,) = apply(text, Edit(one.name, one.within, one.shapes, (1, 99)))
    assert result.outcome is Outcome.hit
    compile(out, path, "exec")
    again, (second,) = apply(out, Edit(one.name, one.within, one.shapes, (1, 99)))
    assert (again, second.outcome) == (out, Outcome.present)


def test_a_renamed_class_is_drift_with_the_new_name() -> None:
    text = read(root() / "multimodal/processing/processor.py")
    text = text.replace("class BaseMultiModalProcessor(", "class BaseMultiModalProcessorV2(")
    result = Module(text).find(edit("body_start", None, "x", "class BaseMultiModalProcessor > def apply"))
    assert result.outcome is Outcome.drift
    assert result.candidate is not None
    assert "found `class BaseMultiModalProcessorV2`" in result.candidate.difference


def files() -> Iterator[Path]:
    yield from sorted(root().rglob("*.py"))


def test_every_fortieth_file_has_all_its_offsets() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in list(files())[::40]:
            text = read(path)
            region = Region(text)
            for node in region.by_type[cst.Name]:
                assert isinstance(node, cst.Name)
                assert text[slice(*region.inner(node))] == node.value


def reproduced(path: Path) -> str | None:
    """The path of a file that does not come out as it went in; None when it does."""
    warnings.simplefilter("ignore")
    text = read(path)
    chunks = [text[chunk.start : chunk.end] for chunk in outline(text)]
    return None if "".join(cst.parse_module(chunk).code for chunk in chunks) == text else str(path)


@pytest.mark.slow
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])
def test_files_are_parsed_in_pieces_and_reproduced(step: int) -> None:
    every = list(files())[::step]
    assert len(every) > 1000 // step
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert [path for path in pool.map(reproduced, every, chunksize=50) if path] == []


PROBES = [
    ("group_and_batch_mm_kwargs($_, device=self.device, pin_memory=$_)", None, 4),
    ("self.device", "class GPUModelRunner > def __init__", None),
    ("nothing_of_the_kind(self)", None, 0),
    ("self._dummy_run($...a)", "class GPUModelRunner", None),
]


@pytest.mark.parametrize(("match", "within", "expected"), PROBES)
def test_counting_in_a_part_of_a_large_class_counts_all(
    match: str, within: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = read(root() / "v1/worker/gpu_model_runner.py")
    probe = Probe(match, within)
    in_part = Module(text).probe(probe)
    monkeypatch.setattr("vlmopt.rewrite.module._LARGE", len(text))
    assert in_part == Module(text).probe(probe)
    assert in_part > 0 if expected is None else in_part == expected
