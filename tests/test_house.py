"""Promises about the project as a whole: what ships, who may know what, and what no file may hold."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support.models import load_model, model_names
from vlmopt.rules import load_rules
from vlmopt.specs import list_specs

ROOT = Path(__file__).parents[1]
TRACKED = subprocess.run(
    ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.splitlines()
PYTHON = [path for path in TRACKED if path.endswith(".py")]


def imports_of(path):
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def importing(folder, name):
    return [
        path
        for path in PYTHON
        if path.startswith(folder)
        and any(found == name or found.startswith(f"{name}.") for found in imports_of(path))
    ]


def test_each_part_knows_only_what_it_should():
    assert importing("vlmopt/rewrite/", "vllm") == []
    assert importing("vlmopt/runtime/", "vlmopt") == []
    assert [path for path in importing("", "vlmopt.cli") if not path.startswith("tests/")] == []
    heavy = {path for name in ("vllm", "torch", "transformers") for path in importing("vlmopt/", name)}
    with_vllm = ("vlmopt/runtime/", "vlmopt/engine/", "vlmopt/argus/")
    assert [path for path in sorted(heavy) if not path.startswith(with_vllm)] == []
    asking = {"protocol", "environment", "child", "module", "worker", "server", "client"}
    assert [path for path in heavy if path.startswith("vlmopt/engine/") and Path(path).stem in asking] == []
    for path in PYTHON:
        if path.startswith("vlmopt/rewrite/"):
            known = {found for found in imports_of(path) if found.startswith("vlmopt.")}
            assert all(found.startswith("vlmopt.rewrite") for found in known), path


def names_of_models():
    """Words that stand for a model: from specs, architectures and the folders of tests."""
    words = set()
    for spec in list_specs():
        words |= {spec.name, spec.architecture, Path(spec.model.module).stem, spec.model.processor_class}
    for name in model_names():
        words |= {name, load_model(name).title}
    stems = {re.match(r"[a-z]+", word.lower()).group() for word in words}
    return stems | {word.lower() for word in words}


def test_no_python_file_names_a_model():
    words = names_of_models()
    assert len(words) > 10
    pattern = re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)))
    # The family that this project brings itself has code, tests, commands and benchmarks of its own.
    others = [path for path in PYTHON if not re.search(r"(^|[/_])argus[/_.]", path)]
    found = {path: pattern.findall((ROOT / path).read_text("utf-8").lower()) for path in others}
    assert {path: hits for path, hits in found.items() if hits} == {}


def test_no_rule_names_a_model_or_a_release():
    words = names_of_models()
    for rule in load_rules():
        raw = yaml.safe_load((ROOT / "rules" / f"{rule.id}.yaml").read_text("utf-8"))
        code = yaml.safe_dump({key: raw.get(key) for key in ("edits", "already", "when", "needs")}).lower()
        assert [word for word in words if word in code] == [], rule.id
        assert not re.search(r"\b0\.\d\d\.\d", code), rule.id


def test_every_recipe_and_model_is_there():
    promised = yaml.safe_load((ROOT / "tests" / "promised.yaml").read_text("utf-8"))
    assert set(promised["recipes"]) <= {rule.id for rule in load_rules()}
    assert set(promised["models"]) == {spec.name for spec in list_specs()} == set(model_names())


@pytest.mark.parametrize(
    "path", [path for path in TRACKED if not path.endswith((".xz", ".jpg", ".png", ".safetensors"))]
)
def test_no_file_names_a_registry_or_a_machine(path):
    text = (ROOT / path).read_text("utf-8")
    # Put together here, so that this file does not hold them either.
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]
    assert [host for host in hosts if host in text] == []
    assert not re.search(r"(^|[\s\"'(=])/(work|farm|root)/", text)
    assert "../" + "shared" not in text


def test_the_lock_of_uv_is_not_tracked():
    assert "uv.lock" not in TRACKED


def test_rules_specs_and_golden_outputs_ship_in_the_wheel(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("rules", "model_specs"):
        for file in (ROOT / folder).glob("*.yaml"):
            assert f"vlmopt/_data/{folder}/{file.name}" in names
    assert {f"vlmopt/_data/{path}" for path in TRACKED if path.startswith("golden_outputs/")} <= names
    assert {path for path in TRACKED if path.startswith("vlmopt/")} <= names


def test_the_readme_says_what_is_there():
    readme = (ROOT / "README.md").read_text("utf-8")
    for rule in load_rules():
        assert f"`{rule.id}`" in readme or rule.id == "image-carrier"
    for spec in list_specs():
        assert spec.title.removesuffix("-Video") in readme
    for link in re.findall(r"\]\((docs/[^)#]+)\)", readme):
        assert (ROOT / link).is_file(), link
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
