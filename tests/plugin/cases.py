"""A small package that plugs into the small vLLM, in every way that one may be installed."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.plan.cases import FILES as VLLM_FILES
from tests.plan.cases import MODEL as VLLM_MODEL
from tests.plan.cases import SPEC as VLLM_SPEC
from tests.sources.trees import write_tree
from vlmopt.plan import Plan, make_plan
from vlmopt.rules import load_rules
from vlmopt.sources import open_tree
from vlmopt.specs import Spec

PACKAGE, DISTRIBUTION, VERSION = "acme_vlm", "acme-vlm", "4.5"
MODEL = f"{PACKAGE}/models/tiny.py"
ENTRY_POINTS = f"""\
[vllm.general_plugins]
acme = {PACKAGE}:register

[console_scripts]
acme = {PACKAGE}:main
"""
FILES = {
    f"{PACKAGE}/__init__.py": "raise RuntimeError('imported')\n",
    f"{PACKAGE}/models/__init__.py": "",
    MODEL: VLLM_FILES[VLLM_MODEL],
    f"{PACKAGE}/data.json": "{}\n",
    f"{PACKAGE}/models/other.py": "import torch\n",
}
SPEC = Spec.model_validate(
    VLLM_SPEC.facts()
    | {
        "plugin": {"package": PACKAGE, "distribution": DISTRIBUTION},
        "model": VLLM_SPEC.facts()["model"] | {"module": MODEL, "processor_module": MODEL},
    }
)
WAYS = ["installed", "path file", "own finder", "src"]


def install(site: Path, how: str = "installed", files: Mapping[str, str] = FILES) -> Path:
    """Installs the package into a site-packages folder; returns the folder that holds it."""
    root = site
    record = ["../../../bin/acme"]
    info = site / f"{PACKAGE}-{VERSION}.dist-info"
    info.mkdir(parents=True)
    if how == "installed":
        record += files
    else:
        project = site.parents[2] / "a project"
        root = project / "src" if how == "src" else project
        direct = {"url": project.as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(direct))
        if how == "path file":
            (site / "_acme.pth").write_text(f"# a comment\nimport sys\n{root}\n")
            # A part of an editable package may lie here as well, without an __init__.py.
            write_tree(site, {f"{PACKAGE}/_data/rules.txt": ""})
    write_tree(root, dict(files))
    about = {
        "METADATA": f"Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: {VERSION}\n\nAbout.\n",
        "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        "entry_points.txt": ENTRY_POINTS,
        "licenses/LICENSE": "As you like.\n",
    }
    write_tree(info, about)
    record += [f"{info.name}/{name}" for name in about]
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in record))
    return root


def plan_of(source: Path, rules: Path, **options: object) -> Plan:
    """The plan of the rules for the plug-in's model on a stock."""
    return make_plan(open_tree(str(source)), SPEC, load_rules(rules), allow="bounded", **options)  # type: ignore[arg-type]
