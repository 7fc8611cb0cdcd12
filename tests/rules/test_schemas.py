"""The JSON Schemas in docs/schema are current, and say the same as the loader."""

from pathlib import Path

import jsonschema
import pytest

from vlmopt import yamlfile
from vlmopt.errors import RuleError
from vlmopt.folders import rules_folder, specs_folder
from vlmopt.schemas import schema, schema_files

DOCS = Path(__file__).parents[2] / "docs" / "schema"
FILES = [(path, "rule") for path in sorted(rules_folder().glob("*.yaml"))] + [
    (path, "spec") for path in sorted(specs_folder().glob("*.yaml"))
]
EDIT = {"file": "vllm/a.py", "match": "x", "replace": "y"}
RULE = {"id": "a", "title": "A", "why": "B.", "contract": "exact", "edits": [EDIT]}


def test_the_schemas_in_docs_are_current() -> None:
    """When this fails: `python -m vlmopt.schemas docs/schema`."""
    assert {path.name: path.read_text() for path in DOCS.glob("*.json")} == schema_files()


@pytest.mark.parametrize(("path", "kind"), FILES, ids=lambda part: getattr(part, "name", part))
def test_every_file_that_ships_meets_its_schema(path: Path, kind: str) -> None:
    jsonschema.Draft202012Validator(schema(kind)).validate(yamlfile.load(path, RuleError).data)


@pytest.mark.parametrize(
    "change",
    [
        {"contract": "perfect"},
        {"contract": "bounded"},
        {"extra": 1},
        {"edits": []},
        {"edits": [EDIT | {"after": "z"}]},
        {"edits": [{"file": "vllm/a.py", "match": "x"}]},
        {"edits": [EDIT | {"times": "many"}]},
        {"edits": [EDIT | {"times": 0}]},
        {"edits": [EDIT | {"already": [1]}]},
        {"examples": [{"before": "x"}]},
    ],
)
def test_the_rule_schema_refuses_what_the_loader_refuses(change: dict[str, object]) -> None:
    validator = jsonschema.Draft202012Validator(schema("rule"))
    validator.validate(RULE)
    assert not validator.is_valid(RULE | change)


@pytest.mark.parametrize(
    "edit",
    [
        EDIT | {"times": "1..3"},
        EDIT | {"already": "x"},
        EDIT | {"already": ["x", {"match": "y"}]},
        EDIT | {"file": ["vllm/a.py", "vllm/b.py"]},
        {"file": "vllm/a.py", "one_of": [{"match": "x", "replace": "y"}, {"match": "z", "after": "y"}]},
    ],
)
def test_the_rule_schema_takes_the_short_forms(edit: dict[str, object]) -> None:
    jsonschema.Draft202012Validator(schema("rule")).validate(RULE | {"edits": [edit]})
