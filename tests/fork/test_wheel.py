"""The wheel of a fork."""

import base64
import csv
import hashlib
import io
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from vlmopt.errors import SourceError, UsageError
from vlmopt.fork import Fork, build_wheel, wheel_name, write_fork
from vlmopt.plan import Plan

from .cases import BINARY, STOCK_FILES, make_plan_of, make_stock

INFO = "vllm-1.2.3+vlmopt.dist-info"


@pytest.fixture
def fork(plan: Plan, tmp_path: Path) -> Fork:
    return write_fork(plan, tmp_path / "fork", "")


def test_the_wheel_holds_the_fork_and_a_true_record(fork: Fork, tmp_path: Path) -> None:
    (fork.path / "vllm/__pycache__").mkdir()
    (fork.path / "vllm/__pycache__/version.cpython-311.pyc").write_bytes(b"x")
    path = build_wheel(fork, tmp_path)
    assert path == tmp_path / wheel_name(fork)
    assert str(parse_wheel_filename(path.name)[1]) == "1.2.3+vlmopt"
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        content = {info.filename: archive.read(info) for info in archive.infolist()}
        modes = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
    packed = {name for name in content if name.startswith("vllm/")}
    assert packed == {*STOCK_FILES, *fork.lock.files, "vllm/_C.abi3.so", "vllm/configs/a b,c.json"}
    for name in packed:
        assert content[name] == (fork.path / name).read_bytes()
    assert modes["vllm/_C.abi3.so"] == 0o755
    assert modes["vllm/utils.py"] == 0o644
    record = {row[0]: row[1:] for row in csv.reader(io.StringIO(content[f"{INFO}/RECORD"].decode()))}
    assert record.keys() == content.keys()
    assert record.pop(f"{INFO}/RECORD") == ["", ""]
    for name, (digest, size) in record.items():
        expected = base64.urlsafe_b64encode(hashlib.sha256(content[name]).digest()).decode().rstrip("=")
        assert (digest, int(size)) == (f"sha256={expected}", len(content[name]))
    assert b"Name: vllm\nVersion: 1.2.3+vlmopt\n" in content[f"{INFO}/METADATA"]
    assert b"Root-Is-Purelib: false\nTag: cp38-abi3-" in content[f"{INFO}/WHEEL"]
    assert b"vllm = vllm.entrypoints.cli.main:main" in content[f"{INFO}/entry_points.txt"]


def test_the_same_fork_gives_the_same_bytes(fork: Fork, plan: Plan, tmp_path: Path) -> None:
    one = build_wheel(fork, tmp_path / "one.whl")
    copied = write_fork(plan, tmp_path / "copied", "", copy=True)
    two = build_wheel(copied, tmp_path / "two.whl")
    assert one.read_bytes() == two.read_bytes()


def test_an_unpacked_wheel_imports_without_stock(fork: Fork, stock: Path, tmp_path: Path) -> None:
    path = build_wheel(fork, tmp_path)
    stock.rename(stock.parent / "moved")
    site = tmp_path / "site"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    code = "import vllm, vllm.utils, importlib.metadata as m; print(vllm.__file__, m.version('vllm'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(site / "vllm/__init__.py"), "1.2.3+vlmopt"]
    assert (site / "vllm/_C.abi3.so").read_bytes() == BINARY


@pytest.mark.parametrize(
    ("modules", "tag"),
    [
        (["_C.abi3.so"], "cp38-abi3-manylinux_2_28_x86_64"),
        (["_C.abi3.so", "_x.cpython-312-x86_64-linux-gnu.so"], "cp312-cp312-manylinux_2_28_x86_64"),
        ([], "py3-none-any"),
    ],
)
def test_the_tag_is_what_the_compiled_modules_say(
    rules: Path, tmp_path: Path, modules: list[str], tag: str
) -> None:
    stock = make_stock(tmp_path / "stock")
    (stock / "vllm/_C.abi3.so").unlink()
    for name in modules:
        (stock / "vllm" / name).write_bytes(b"")
    # As a distribution was found to say of itself, with modules for every Python.
    (stock / "vllm-1.2.3.dist-info/WHEEL").write_text(
        "Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_28_x86_64\n"
    )
    fork = write_fork(make_plan_of(stock, rules), tmp_path / "fork", "")
    assert wheel_name(fork) == f"vllm-1.2.3+vlmopt-{tag}.whl"


def test_a_wheel_is_written_whole_or_not_at_all(
    fork: Fork, stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out/it.whl"
    out.parent.mkdir()
    out.write_bytes(b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "writestr", full)
        with pytest.raises(UsageError, match=r"cannot write .*it\.whl: No space left on device"):
            build_wheel(fork, out)
    assert [path.name for path in out.parent.iterdir()] == ["it.whl"]
    assert out.read_bytes() == b"old"
    with pytest.raises(UsageError, match=r"end it with \.whl, or name a folder"):
        build_wheel(fork, tmp_path / "it.zip")
    (stock / "vllm/utils.py").write_text("# patched\n")
    with pytest.raises(SourceError, match="differs from what the fork"):
        build_wheel(fork, out)
