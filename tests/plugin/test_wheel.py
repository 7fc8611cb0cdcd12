"""The wheels of a fork with a plug-in: one of each distribution."""

import zipfile
from pathlib import Path

from tests.fork.cases import STOCK_FILES
from vlmopt.fork import Fork, build_plugin_wheel, build_wheel, write_fork
from vlmopt.plan import Plan
from vlmopt.report.terminal import unpacked_plugin

from .cases import FILES, MODEL, PACKAGE, VERSION, install, plan_of


def content(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}


def test_vllm_and_the_plug_in_are_wheels_of_their_own(fork: Fork, plan: Plan, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    vllms = content(build_wheel(fork, dist))
    assert not [name for name in vllms if name.startswith(PACKAGE)]
    assert set(STOCK_FILES) < set(vllms)
    made = build_plugin_wheel(fork, dist)
    assert made == dist / f"{PACKAGE}-{VERSION}+vlmopt-py3-none-any.whl"
    assert unpacked_plugin(fork, made) == ""
    own = content(made)
    info = f"{PACKAGE}-{VERSION}+vlmopt.dist-info"
    assert {name for name in own if not name.startswith(info)} == set(FILES)
    assert {name.removeprefix(f"{info}/") for name in own if name.startswith(info)} == {
        "METADATA",
        "WHEEL",
        "RECORD",
        "entry_points.txt",
        "licenses/LICENSE",
    }
    assert own[MODEL] == plan.files[MODEL].after
    assert own[f"{PACKAGE}/data.json"] == FILES[f"{PACKAGE}/data.json"]
    assert f"Version: {VERSION}+vlmopt\n" in own[f"{info}/METADATA"]
    assert "vllm.general_plugins" in own[f"{info}/entry_points.txt"]
    assert "Root-Is-Purelib: true" in own[f"{info}/WHEEL"]
    assert {line.split(",")[0] for line in own[f"{info}/RECORD"].splitlines()} == set(own)


def test_one_that_is_used_from_its_sources_is_left_out_and_that_is_said(
    stock: Path, rules: Path, tmp_path: Path
) -> None:
    install(stock, "path file")
    fork = write_fork(plan_of(stock, rules), tmp_path / "fork", "")
    wheel = build_wheel(fork, tmp_path)
    assert not [name for name in content(wheel) if name.startswith(PACKAGE)]
    assert build_plugin_wheel(fork, tmp_path) is None
    said = unpacked_plugin(fork, None)
    assert said.startswith(f"this wheel holds vLLM alone: acme-vlm {VERSION} (editable, ")
    assert f"git apply --include='{PACKAGE}/*'" in said


def test_a_wheel_of_a_copy_holds_the_changes_too(plan: Plan, tmp_path: Path) -> None:
    made = build_plugin_wheel(write_fork(plan, tmp_path / "fork", "", copy=True), tmp_path)
    assert made is not None
    assert content(made)[MODEL] == plan.files[MODEL].after
