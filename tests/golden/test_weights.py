"""Seeded weights of the small model folders: made once, the same every time, whole or not at all."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.support.models import own_specs
from vlmopt.errors import SpecError, UsageError
from vlmopt.folders import specs_folder
from vlmopt.measure.sessions import loaded_model
from vlmopt.small import STAMP, WEIGHTS, build_small_model, third_party_folder
from vlmopt.specs import Spec, list_specs, read_spec

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def changed(name: str, into: Path, **small: object) -> Spec:
    """The spec of a model with other facts under `small`, in a folder of its own."""
    home = into / "specs"
    if not home.exists():
        shutil.copytree(specs_folder(), home)
    facts = yaml.safe_load((home / f"{name}.yaml").read_text("utf-8"))
    facts["small"] |= small
    (home / f"{name}.yaml").write_text(yaml.safe_dump(facts), "utf-8")
    return read_spec(home / f"{name}.yaml")


@pytest.fixture
def name() -> str:
    """One model; what is tested does not depend on it."""
    return own_specs()[-1].name


@pytest.mark.long
def test_weights_depend_on_the_seed_and_on_nothing_else(name: str, tmp_path: Path) -> None:
    into = tmp_path / "models"
    first = build_small_model(changed(name, tmp_path), into)
    before, stamp = digest(first), (first / STAMP).stat()
    assert build_small_model(changed(name, tmp_path), into) == first
    assert (first / STAMP).stat() == stamp
    other = changed(name, tmp_path, weights={"seed": 1})
    assert digest(build_small_model(other, into)) != before
    shutil.rmtree(tmp_path / "specs")
    assert digest(build_small_model(changed(name, tmp_path), into)) == before
    assert [path.name for path in into.iterdir()] == [name]


def test_nothing_is_left_where_weights_cannot_be_made(name: str, tmp_path: Path) -> None:
    spec = changed(name, tmp_path, third_party={"model": "NoSuchClass"})
    with pytest.raises(SpecError, match=r"cannot make weights .*NoSuchClass"):
        build_small_model(spec, tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


def test_a_folder_of_somebody_else_is_left_alone(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "models" / name / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", "utf-8")
    with pytest.raises(UsageError, match="no folder that vlmopt made"):
        build_small_model(changed(name, tmp_path), tmp_path / "models")
    assert mine.read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    "spec",
    [spec for spec in list_specs() if spec.small and spec.small.third_party.files],
    ids=lambda spec: spec.name,
)
def test_both_layouts_hold_the_same_values(spec: Spec, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = build_small_model(spec, tmp_path)
    hub, own = (load_file(each / WEIGHTS) for each in (folder, third_party_folder(spec, folder)))
    assert not hub.keys() & {name for name in own if name.startswith("vision")}
    values = [torch.cat([each.float().flatten() for each in file.values()]).sort() for file in (hub, own)]
    assert torch.equal(values[0].values, values[1].values)
    joined = [name for name in hub if name not in own and hub[name].ndim == 2 and hub[name].shape[0] == 192]
    assert joined
    for name in joined:
        parts = hub[name].chunk(3)
        assert all(any(torch.equal(part, other) for other in own.values()) for part in parts), name
    assert json.loads((folder / STAMP).read_text("utf-8"))["spec"] == spec.name


@pytest.fixture
def shipped() -> Spec:
    """A model that is small itself."""
    (spec, *_) = [spec for spec in list_specs() if spec.small and spec.small.checkpoint]
    return spec


def test_a_checkpoint_that_ships_is_taken_as_it_is(shipped: Spec, tmp_path: Path) -> None:
    where = build_small_model(shipped)
    assert where == third_party_folder(shipped, where)
    copy = build_small_model(shipped, tmp_path)
    assert copy == tmp_path / shipped.name
    names = {path.name for path in where.iterdir()}
    assert {path.name for path in copy.iterdir()} == {*names, STAMP}
    assert all((copy / name).read_bytes() == (where / name).read_bytes() for name in names)
    before = (copy / STAMP).stat()
    assert build_small_model(shipped, tmp_path) == copy
    assert (copy / STAMP).stat() == before


def test_a_copy_of_a_checkpoint_takes_nobody_elses_place(shipped: Spec, tmp_path: Path) -> None:
    mine = tmp_path / shipped.name / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine", "utf-8")
    with pytest.raises(UsageError, match="no folder that vlmopt made"):
        build_small_model(shipped, tmp_path)
    assert [path.name for path in mine.parent.iterdir()] == ["notes.txt"]


def test_a_checkpoint_that_is_not_there_is_told(shipped: Spec, tmp_path: Path) -> None:
    assert shipped.small is not None
    spec = changed(shipped.name, tmp_path, checkpoint="vlmopt/argus/checkpoints/none")
    with pytest.raises(SpecError, match="has no checkpoint in vlmopt/argus/checkpoints/none"):
        build_small_model(spec)


def test_what_is_measured_with_a_checkpoint_says_so(shipped: Spec) -> None:
    assert shipped.small is not None
    with loaded_model(shipped, None) as (model, words, form):
        assert (words, form) == (shipped.small.checkpoint, "auto")
        assert (model.folder / WEIGHTS).is_file()
