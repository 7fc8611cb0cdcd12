"""A small plan, and a fork of it on disk."""

from pathlib import Path

from tests.plan.memory_tree import MemoryTree
from vlmopt.fork import Fork, write_fork
from vlmopt.plan import Plan, make_plan
from vlmopt.report.markdown import report
from vlmopt.rules import Rule
from vlmopt.specs import Spec

MODEL = "vllm/tiny.py"
FILES = {
    "vllm/__init__.py": '"""Serves."""\n',
    "vllm/_version.py": "__version__ = version = '1.2.3'\n",
    MODEL: "def scale(pixels):\n    return pixels / 255\n\n\ndef move(item):\n    return item.to(device)\n",
}

SPEC = Spec.model_validate(
    {
        "name": "tiny-1b",
        "title": "Tiny 1B",
        "architecture": "Tiny",
        "hub": ["org/tiny"],
        "model": {
            "module": MODEL,
            "class": "Tiny",
            "processor_module": MODEL,
            "processor_class": "TinyProcessor",
        },
        "images": {"geometry": "unknown"},
    }
)


def _rule(id_: str, match: str, replace: str, **more: object) -> Rule:
    edit = {"file": MODEL, "match": match, "replace": replace}
    data = {"id": id_, "title": f"Title of {id_}", "why": f"Why {id_}.", "contract": "exact", "edits": [edit]}
    return Rule.model_validate({**data, **more})


RULES = [
    _rule("scale-late", "return pixels / 255", "return pixels  # <b>late</b> & 'raw'"),
    _rule("pin", "item.to(device)", "item.to(device, non_blocking=True)", needs=["scale-late"]),
    _rule("guess", "nothing", "something", contract="approximate"),
    _rule("elsewhere", "nothing", "something", when={"images.geometry": ["fixed", "tile-grid"]}),
]


def small_plan() -> Plan:
    """Two rules applied, one skipped, one not applicable."""
    return make_plan(MemoryTree(FILES), SPEC, RULES)


def small_fork(out: Path) -> Fork:
    """The same, written."""
    plan = small_plan()
    return write_fork(plan, out, report(plan))
