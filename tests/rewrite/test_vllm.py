"""The engine on real files: those of an installed vLLM, read as text."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest

from tests.rewrite.helpers import apply, edit
from vlmopt.rewrite import Edit, Module, Outcome
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
    (
        "multimodal/processing/processor.py",
        edit("body_start", None, "if x:\n    return x", "class * > def apply"),
    ),
    ("multimodal/processing/processor.py", edit("base", None, "Mixin", "class BaseMultiModalProcessor")),
    ("multimodal/utils.py", edit("body_end", None, "x = 1", "def group_and_batch_mm_kwargs")),
    (
        "model_executor/models/llava.py",
        edit("attribute", None, "x: int = 1", "class LlavaForConditionalGeneration"),
    ),
    ("model_executor/models/idefics3.py", edit("method", None, "def x(self): pass", "class Idefics3Model")),
    (
        "model_executor/models/qwen2_vl.py",
        edit("replace", "super().__init__($...a)", "super().__init__($...a, x=1)", times=(1, 99)),
    ),
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


@pytest.mark.slow
def test_every_file_is_parsed_in_pieces_and_reproduced() -> None:
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in files():
            text = read(path)
            chunks = [text[chunk.start : chunk.end] for chunk in outline(text)]
            assert "".join(cst.parse_module(chunk).code for chunk in chunks) == text, path
            count += 1
    assert count > 1000
