"""The registry is read as data, whatever tables it is put together from."""

import pytest

from tests.plan.memory_tree import MemoryTree
from vlmopt.errors import SourceError
from vlmopt.infer.code import Code
from vlmopt.infer.registry import Registered, read_registry

from .small_tree import REGISTRY

TABLES = """\
import os

_TEXT = {
    "TextModel": ("text", "TextModel"),
}
_POOLING = {
    "Pooled": ("pooled", "Pooled"),
    **{k: (mod, arch) for k, (mod, arch) in _TEXT.items() if arch == "TextModel"},
}
_MULTIMODAL_MODELS: dict[str, tuple[str, str]] = {
    # [Decoder-only]
    "Seeing": (
        "vllm.models.seeing",
        "SeeingModel",
    ),
}
_OTHERS = {"not": "a row"}
_VLLM_MODELS = {**_TEXT, **_POOLING, **_MULTIMODAL_MODELS}
"""


def read(text: str) -> dict[str, Registered]:
    return read_registry(Code(MemoryTree({REGISTRY: text})))


def test_tables_are_followed_in_order() -> None:
    rows = read(TABLES)
    assert list(rows.values()) == [
        Registered("TextModel", "vllm.model_executor.models.text", "TextModel", False),
        Registered("Pooled", "vllm.model_executor.models.pooled", "Pooled", False),
        Registered("Seeing", "vllm.models.seeing", "SeeingModel", True),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "_VLLM_MODELS of architectures is not there"),
        ("_VLLM_MODELS = {\n  'A': make('a'),\n}\n", f"{REGISTRY}:2: a row of _VLLM_MODELS is not"),
        ("_VLLM_MODELS = {\n", f"{REGISTRY}:1: not valid Python"),
    ],
)
def test_another_shape_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tree_without_a_registry() -> None:
    with pytest.raises(SourceError, match=r"registry\.py is not in vLLM"):
        read_registry(Code(MemoryTree({})))
