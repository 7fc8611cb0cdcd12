"""Where a plug-in is found, and what is said when it is not, or when its code has moved."""

import json
import sys
from pathlib import Path

import pytest

from tests.fork.cases import STOCK_FILES
from tests.plan.cases import SPEC as VLLM_SPEC
from tests.plan.cases import statuses, write_rule
from tests.plan.memory_tree import MemoryTree
from vlmopt.errors import DriftError, RuleError, SourceError, SpecError
from vlmopt.plan import Plan, make_plan
from vlmopt.rules import load_rules
from vlmopt.specs import read_spec

from .cases import DISTRIBUTION, FILES, MODEL, PACKAGE, SPEC, VERSION, WAYS, install, plan_of


def test_rules_change_the_plug_in_and_vllm(plan: Plan) -> None:
    assert {name: status for name, (status, _) in statuses(plan).items()} == {
        "normalize": "applied",
        "fast-resize": "applied",
        "pinned": "applied",
        "rough": "skipped",
    }
    assert sorted(plan.files) == [MODEL, "vllm/utils.py"]
    assert plan.files[MODEL].before == FILES[MODEL]
    assert "table(pixels)" in plan.files[MODEL].after
    assert sorted(plan.runtime_files) == ["vllm/vlmopt_runtime/__init__.py", "vllm/vlmopt_runtime/keys.py"]
    assert PACKAGE not in sys.modules


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("beside", [True, False], ids=["in another environment", "in this one"])
def test_it_is_found_however_it_was_installed(
    how: str, beside: bool, stock: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = stock if beside else tmp_path / "own/lib/python3.11/site-packages"
    root = install(site, how)
    if beside:
        plan = plan_of(stock, rules)
    else:
        # As Python starts: the folder, and what its .pth files add.
        monkeypatch.setattr(sys, "path", [*sys.path, str(site), *([str(root)] if how == "path file" else [])])
        plan = make_plan(MemoryTree(STOCK_FILES), SPEC, load_rules(rules))
    found = plan.plugin
    assert found is not None
    assert (found.root, found.version) == (root, VERSION)
    assert found.kind == ("installed" if how == "installed" else "editable")
    assert found.read(MODEL) == FILES[MODEL]
    assert set(found.metadata()) == {"METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert PACKAGE not in sys.modules


def test_a_fork_on_the_path_is_passed_over(
    stock: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, site = tmp_path / "fork", tmp_path / "own"
    install(fork)
    (fork / "vlmopt.lock.json").write_text("{}")
    root = install(site)
    monkeypatch.setattr(sys, "path", [str(fork), str(site), *sys.path])
    found = make_plan(MemoryTree(STOCK_FILES), SPEC, load_rules(rules)).plugin
    assert found is not None
    assert found.root == root


def test_one_that_is_not_installed_is_named(stock: Path, rules: Path) -> None:
    with pytest.raises(SourceError) as e:
        plan_of(stock, rules)
    assert str(e.value) == (
        f"spec {SPEC.name}: the plug-in {DISTRIBUTION} (package {PACKAGE}) is not installed beside the vLLM "
        f"in {stock} or in this environment; install it: pip install {DISTRIBUTION}"
    )
    assert e.value.exit_code == 2


def test_one_that_registers_nothing_is_refused(stock: Path, rules: Path) -> None:
    install(stock)
    (stock / f"{PACKAGE}-{VERSION}.dist-info/entry_points.txt").write_text("[console_scripts]\nacme = x:y\n")
    with pytest.raises(SourceError, match=rf"{DISTRIBUTION} {VERSION} registers nothing with vLLM .no entry"):
        plan_of(stock, rules)


def test_one_without_the_package_is_refused(stock: Path, rules: Path) -> None:
    install(stock)
    (stock / PACKAGE / "__init__.py").unlink()
    with pytest.raises(SourceError, match=rf"it brings no package {PACKAGE} with an __init__.py; correct"):
        plan_of(stock, rules)


def test_a_module_that_is_not_there_is_said(stock: Path, rules: Path) -> None:
    install(stock)
    (stock / MODEL).unlink()
    with pytest.raises(SpecError) as e:
        plan_of(stock, rules)
    words = f"{DISTRIBUTION} {VERSION} (installed, {stock / PACKAGE})"
    assert f"{MODEL} is not in {words}; correct the spec" in str(e.value)


def test_an_anchor_that_moved_in_it_is_drift(stock: Path, rules: Path) -> None:
    moved = FILES[MODEL].replace("pixels / 255", "pixels / 256")
    install(stock, files=FILES | {MODEL: moved})
    with pytest.raises(DriftError) as e:
        plan_of(stock, rules)
    assert e.value.exit_code == 3
    message = str(e.value)
    words = f"{DISTRIBUTION} {VERSION} (installed, {stock / PACKAGE})"
    assert f"in vLLM 1.2.3 ({stock / 'vllm'}) with {words}; nothing was written" in message
    assert f"  file      {MODEL}\n" in message
    assert "  nearest   line 8: scaled = pixels / 256  # to floats\n" in message


def test_a_file_that_is_gone_from_it_is_drift_of_its_own(stock: Path, tmp_path: Path) -> None:
    install(stock)
    (tmp_path / "rules").mkdir()
    edit = {"file": f"{PACKAGE}/gone.py", "match": "x = $y", "replace": "x = 1"}
    write_rule(tmp_path / "rules", "gone", edit)
    with pytest.raises(DriftError) as e:
        plan_of(stock, tmp_path / "rules")
    assert f"file      {PACKAGE}/gone.py is not in {DISTRIBUTION} {VERSION} (installed, " in str(e.value)


@pytest.mark.parametrize("path", ["other/x.py", "../acme_vlm/x.py", "/etc/x.py", f"{PACKAGE}/../vllm/x.py"])
def test_a_rule_stays_in_vllm_and_in_the_plug_in(path: str, stock: Path, tmp_path: Path) -> None:
    install(stock)
    (tmp_path / "rules").mkdir()
    write_rule(tmp_path / "rules", "wild", {"file": path, "match": "x = $y", "replace": "x = 1"})
    with pytest.raises(RuleError, match=rf"not a path inside the tree \(vllm/... or {PACKAGE}/...,"):
        plan_of(stock, tmp_path / "rules")


def spec_file(folder: Path, **changes: object) -> Path:
    facts = {key: value for key, value in (SPEC.facts() | changes).items() if value is not None}
    (folder / "tiny-1b.yaml").write_text(json.dumps(facts))  # JSON is YAML
    return folder / "tiny-1b.yaml"


def test_a_spec_names_the_package_of_its_modules(tmp_path: Path) -> None:
    assert read_spec(spec_file(tmp_path)).packages == ("vllm", PACKAGE)
    outside = f"{MODEL} is outside of vLLM; name its package: plugin: .package: {PACKAGE}"
    with pytest.raises(SpecError, match=outside):
        read_spec(spec_file(tmp_path, plugin=None))
    with pytest.raises(SpecError, match="package is vllm itself"):
        read_spec(spec_file(tmp_path, plugin={"package": "vllm"}))
    vllms = VLLM_SPEC.facts()["model"]
    assert read_spec(spec_file(tmp_path, plugin=None, model=vllms)).packages == ("vllm",)
