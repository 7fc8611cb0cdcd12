"""Names are resolved across files as Python would, without running any of them."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from tests.plan.memory_tree import MemoryTree
from vlmopt.infer.code import Code, dotted_name

NAME = st.from_regex(r"[A-Z][a-z]{0,6}", fullmatch=True)


@given(st.lists(st.tuples(NAME, st.sampled_from(["relative", "absolute", "star", "module"])), max_size=6))
def test_a_chain_of_re_exports_leads_to_the_class(steps: list[tuple[str, str]]) -> None:
    files = {"vllm/m0.py": "class Origin: ...\n"}
    name = "Origin"
    for number, (alias, kind) in enumerate(steps, 1):
        before = f"m{number - 1}"
        if kind == "star":
            files[f"vllm/m{number}.py"] = f"from .{before} import *\n"
            continue
        lines = {
            "relative": f"from .{before} import {name} as {alias}\n",
            "absolute": f"from vllm.{before} import {name} as {alias}\n",
            "module": f"import vllm.{before} as other\n{alias} = other.{name}\n",
        }
        files[f"vllm/m{number}.py"] = lines[kind]
        name = alias
    (found,) = Code(MemoryTree(files)).resolve(f"vllm/m{len(steps)}.py", name)
    assert (found.path, found.name, found.is_class) == ("vllm/m0.py", "Origin", True)


def test_a_package_that_picks_by_platform_gives_all_the_default_first() -> None:
    package = """\
from typing import TYPE_CHECKING
if current_platform.is_rocm():
    from .amd import Model
elif current_platform.is_cpu():
    from .cpu import Model
else:
    from .nvidia import Model
"""
    lazy = """\
if TYPE_CHECKING:
    from .nvidia import Model
def __getattr__(name):
    if rocm:
        from .amd import Model
    else:
        from .nvidia import Model
"""
    models = {f"vllm/p/{name}.py": "class Model: ...\n" for name in ("amd", "cpu", "nvidia")}
    code = Code(MemoryTree({"vllm/p/__init__.py": package, **models}))
    paths = [found.path for found in code.resolve("vllm/p/__init__.py", "Model")]
    assert paths == ["vllm/p/nvidia.py", "vllm/p/amd.py", "vllm/p/cpu.py"]
    code = Code(MemoryTree({"vllm/p/__init__.py": lazy, **models}))
    paths = [found.path for found in code.resolve("vllm/p/__init__.py", "Model")]
    assert paths == ["vllm/p/nvidia.py", "vllm/p/amd.py"]


def test_bases_come_in_lookup_order_across_files() -> None:
    files = {
        "vllm/a.py": "class Root: ...\nclass Left(Root): ...\n",
        "vllm/b.py": "import vllm.a\nfrom .a import Root as R\nclass Right(R): ...\n"
        "class Leaf(vllm.a.Left, Right, nn.Module, Generic[T]): ...\n",
    }
    code = Code(MemoryTree(files))
    (leaf,) = code.resolve("vllm/b.py", "Leaf")
    assert [cls.name for cls in code.lineage(leaf)] == ["Leaf", "Left", "Right", "Root"]


def test_imports_that_go_in_circles_end() -> None:
    files = {"vllm/a.py": "from .b import X\n", "vllm/b.py": "from .a import X\n"}
    assert Code(MemoryTree(files)).resolve("vllm/a.py", "X") == []


def test_foreign_names_have_an_origin_and_no_definition() -> None:
    code = Code(MemoryTree({"vllm/a.py": "from transformers.models import x as y\nimport torch.nn as nn\n"}))
    assert code.resolve("vllm/a.py", "y.Z") == []
    assert code.origin("vllm/a.py", "y.Z") == "transformers.models.x.Z"
    assert code.origin("vllm/a.py", "nn.Module") == "torch.nn.Module"


def test_dotted_names() -> None:
    def name(text: str) -> str | None:
        return dotted_name(ast.parse(text, mode="eval").body)

    assert name("a.b.C[T]") == "a.b.C"
    assert name("f().x") is None
