"""Drafts of the real vLLM: equal to the specs that people wrote, and honest for every other architecture."""

from pathlib import Path

import pytest

from tests.support.models import own_specs
from vlmopt.infer import Draft, Surveyor
from vlmopt.sources import find_installed
from vlmopt.specs import Spec, read_spec

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def drafts() -> dict[str, Draft]:
    tree = find_installed()
    assert tree is not None
    return {draft.architecture: draft for draft in Surveyor(tree).drafts()}


@pytest.mark.parametrize("spec", own_specs(), ids=lambda spec: spec.name)
def test_a_draft_states_what_the_spec_states(spec: Spec, drafts: dict[str, Draft]) -> None:
    written, drafted = spec.facts(), drafts[spec.architecture].spec().facts()
    assert {key: written["model"][key] for key in drafted["model"]} == drafted["model"]
    assert drafted["placeholder"] == written["placeholder"]
    assert drafted["images"]["outputs"] == written["images"]["outputs"]


def test_every_draft_is_a_spec_file(drafts: dict[str, Draft], tmp_path: Path) -> None:
    assert len(drafts) >= 95
    for draft in drafts.values():
        path = tmp_path / "draft.yaml"
        path.write_text(draft.yaml())
        assert read_spec(path).facts() == draft.spec().facts(), draft.architecture
        assert "# fill in:" in draft.yaml()


def test_every_draft_names_classes_that_are_there(drafts: dict[str, Draft]) -> None:
    tree = find_installed()
    assert tree is not None
    for draft in drafts.values():
        assert f"\nclass {draft.class_name}" in tree.read(draft.module)
        assert f"\nclass {draft.processor_class}" in tree.read(draft.processor_module)
        assert draft.placeholder or any(gap.startswith("placeholder.target") for gap in draft.gaps())
        assert draft.image_fields or draft.fields == ()
