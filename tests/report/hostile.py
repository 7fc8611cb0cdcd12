"""A fork of which every text wants to be more than text."""

from pathlib import Path

from tests.plan.memory_tree import MemoryTree
from vlmopt.fork import Fork, write_fork
from vlmopt.plan import make_plan
from vlmopt.report.markdown import report
from vlmopt.rules import Rule

from .plans import FILES, MODEL, SPEC

EVIL = "</code><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>\"><b>"
"""What an attacker would write."""
TURNED = "ab\u202egnp.exe\u200b"
"""Characters that change the order of others, or that nobody sees."""


def hostile_fork(out: Path) -> Fork:
    """One rule is applied, one is not; texts, code and paths are hostile."""
    tree = MemoryTree({**FILES, MODEL: f'def scale(x):\n    """{EVIL}"""\n    return x / 255\n'})
    edit = {
        "file": MODEL,
        "match": "return x / 255",
        "replace": f"return x  # {EVIL} {TURNED}\nhref = 'javascript:alert(1)'",
    }
    rules = [
        Rule.model_validate(
            {"id": name, "title": EVIL, "why": f"{EVIL}\n\n{EVIL}", "contract": "exact", "edits": [each]}
        )
        for name, each in (("one", edit), ("two", {**edit, "match": "return missing"}))
    ]
    spec = SPEC.model_copy(update={"title": EVIL, "hub": [EVIL]})
    plan = make_plan(tree, spec, rules, skip=["two"])
    return write_fork(plan, out, report(plan))
