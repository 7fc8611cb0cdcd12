"""Every mistake in a hand-written file is one line that begins with the file and the line of the mistake."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt import yamlfile
from vlmopt.errors import RuleError, SpecError
from vlmopt.rules import read_rule
from vlmopt.specs import read_spec

RULE = """\
id: a-rule
title: A rule
why: Because.
contract: exact
edits:
  - file: vllm/a.py
    within: class A
    match: x = 1
    replace: x = 2
examples:
  - before: "class A:\\n    x = 1\\n"
    after: "class A:\\n    x = 2\\n"
"""

SPEC = """\
name: a-model
title: A model
architecture: AModel
hub: [org/a-model]
model:
  module: vllm/a.py
  class: A
  processor_module: vllm/a.py
  processor_class: AProcessor
images:
  geometry: fixed
  library: pillow
  convert: before-resize
  resample: bicubic
  parameters:
    size: {attribute: image_processor.size}
  outputs: {pixel_values: pixels}
"""


def _error(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    read, error = (read_rule, RuleError) if name == "a-rule.yaml" else (read_spec, SpecError)
    with pytest.raises(error) as e:
        read(path)
    assert e.value.exit_code == 2
    message = str(e.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_the_two_files_are_sound(tmp_path: Path) -> None:
    (tmp_path / "a-rule.yaml").write_text(RULE)
    (tmp_path / "a-model.yaml").write_text(SPEC)
    assert read_rule(tmp_path / "a-rule.yaml").edits[0].times == (1, 1)
    assert read_spec(tmp_path / "a-model.yaml").model.class_ == "A"


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("title: A rule", "title: 'A rule", 2, "not valid YAML"),
        ("title: A rule", "\ttitle: A rule", 2, "not valid YAML"),
        ("title: A rule", "title: A\x01rule", 2, "not valid YAML"),
        ("why: Because.", "title: Because.", 3, "key 'title' is given twice (first in line 2)"),
        ("title: A rule", "title: !!python/name:os.system ''", 2, "plain data only"),
        ("title: A rule", "title: !mine x", 2, "plain data only"),
        ("title: A rule", "title: !!int x", 2, "plain data only"),
        ("why: Because.", "needs: &n [a]\nruntime: *n", 3, "aliases"),
        ("title: A rule", "1: A rule", 2, "a key must be a text"),
        ("title: A rule", "[a]: A rule", 2, "a key must be a text"),
        ("title: A rule", "titel: A rule", 1, "the key 'title' is missing (and 1 more)"),
        ("    match: x", "    matsch: x", 8, "unknown key 'edits[1].matsch'; did you mean 'match'?"),
        ("contract: exact", "contract: perfect", 4, "contract: input should be 'exact', 'bounded'"),
        ("contract: exact", "contract: bounded", 1, "contract bounded needs it"),
        ("contract: exact", "contract: exact\nbound: 0.01", 1, "bound belongs to contract bounded"),
        ("    replace: x = 2", "    replace: 3", 9, "edits[1].replace: input should be a valid string"),
        ("    replace: x = 2", "    times: 1", 6, "exactly one of replace, before"),
        ("    replace: x = 2", "    replace: x\n    after: y", 6, "found replace, after"),
        ("    match: x = 1\n", "", 6, "replace needs a match"),
        ("    match: x = 1\n    replace", "    where: {x: y}\n    method", 6, "where needs a match"),
        (
            "    within: class A\n    match: x = 1\n    replace",
            "    method",
            6,
            "method needs a match or a within",
        ),
        ("    match: x = 1", "    match: x = 1\n    times: 0", 9, "edits[1].times"),
        ("    match: x = 1", "    match: x = 1\n    times: true", 9, "expected a number of times"),
        ("    match: x = 1", "    match: x = 1\n    times: many", 9, "expected a number of times"),
        ("    match: x = 1", "    match: x = 1\n    times: 3..2", 6, "the range 3..2 is empty"),
        ("    match: x = 1", "    match: x = 1\n    one_of: []", 9, "at least 2 items"),
        (
            "    match: x = 1",
            "    one_of: [{match: a, replace: b}, {match: c, replace: d}]",
            6,
            "one_of takes",
        ),
        ("edits:", "already: [x]\nedits:", 1, "already of a whole rule needs a file"),
        ("id: a-rule", "id: A Rule", 1, "id: string should match pattern"),
        ("id: a-rule", "id: b-rule", 1, "id is 'b-rule', but the file is a-rule.yaml"),
        ("examples:", "runtime: [../x.py]\nexamples:", 10, "runtime[1]: string should match pattern"),
        ("examples:", "runtime: [gone.py]\nexamples:", 10, "there is no vlmopt/runtime/gone.py"),
        ("  - before: ", "  - edit: 2\n    before: ", 1, "an example names edit 2, but there are 1"),
        ("    after: ", "    untouched: ", 11, "an example has before and after, or untouched alone"),
        ("edits:", "when: {'a b': c}\nedits:", 5, "when.a b"),
    ],
)
def test_rule_mistakes(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert RULE.count(old) == 1
    message = _error(tmp_path, "a-rule.yaml", RULE.replace(old, new))
    assert message.startswith(f"a-rule.yaml:{line}: ")
    assert says in message


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("  class: A", "  klass: A", 5, "the key 'model.class' is missing"),
        ("  module: vllm/a.py", "  module: vllm/../../etc/x.py", 6, "not a path inside the tree"),
        ("  module: vllm/a.py", "  module: /etc/x.py", 6, "model.module: string should match pattern"),
        ("  class: A", "  class: A; import os", 7, "model.class: string should match pattern"),
        ("  geometry: fixed", "  geometry: round", 11, "images.geometry: input should be 'tile-grid'"),
        ("  library: pillow\n", "", 10, "geometry fixed also needs library"),
        ("  outputs: {pixel_values: pixels}\n", "", 10, "geometry fixed also needs outputs"),
        ("{pixel_values: pixels}", "{pixel_values: colours}", 17, "images.outputs.pixel_values"),
        ("{attribute: image_processor.size}", "{atribute: x}", 16, "images.parameters.size"),
        ("{attribute: image_processor.size}", "{attribute: __import__('os')}", 16, "images.parameters.size"),
        (
            "architecture: AModel",
            "architecture: AModel\nparameters: -1",
            4,
            "parameters: input should be greater",
        ),
        ("architecture: AModel", "architecture: AModel\nparameters: 1e999", 4, "not a finite number"),
        ("hub: [org/a-model]", "hub: [a-model]", 4, "hub[1]: string should match pattern"),
        ("title: A model", "tittle: A model", 1, "the key 'title' is missing"),
        ("title: A model", "title: A model\nimage: {}", 3, "unknown key 'image'; did you mean 'images'?"),
    ],
)
def test_spec_mistakes(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    assert SPEC.count(old) == 1
    message = _error(tmp_path, "a-model.yaml", SPEC.replace(old, new))
    assert message.startswith(f"a-model.yaml:{line}: ")
    assert says in message


def test_the_first_mistake_in_the_file_is_named(tmp_path: Path) -> None:
    text = RULE.replace("id: a-rule\n", "").replace("match:", "macht:") + "id: A rule\n"
    assert _error(tmp_path, "a-rule.yaml", text) == (
        "a-rule.yaml:7: unknown key 'edits[1].macht'; did you mean 'match'? (and 1 more)"
    )


@pytest.mark.parametrize(
    ("raw", "line", "says"),
    [
        (b"", 1, "expected a mapping"),
        (b"- a\n", 1, "expected a mapping"),
        (b"a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8 text"),
        (b"a: " + b"[" * 60 + b"]" * 60, 1, "nested too deeply"),
        (b"a: " + b"[" * 100_000, None, "nest"),
        (b"a: &a [*a]\n", None, ""),
    ],
)
def test_files_that_are_no_mapping(tmp_path: Path, raw: bytes, line: int | None, says: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(raw)
    with pytest.raises(RuleError) as e:
        yamlfile.load(path, RuleError)
    assert str(e.value).startswith(f"{path}:{line}: " if line else f"{path}:")
    assert says in str(e.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"gone\.yaml: cannot be read: No such file"):
        read_rule(tmp_path / "gone.yaml")
    with pytest.raises(SpecError, match=r"cannot be read: Is a directory"):
        read_spec(tmp_path)


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: [no, on, 1:30, 2.1e9, -3, 1e2, '4', true, ~, 0o7, 2026-01-01, <<, =]\n")
    read = yamlfile.load(path, RuleError).data["a"]
    assert read == ["no", "on", "1:30", 2.1e9, -3, 100.0, "4", True, None, "0o7", "2026-01-01", "<<", "="]


_KEYS = st.text(st.characters(codec="utf-8", categories=["L", "N", "Zs", "P"]), max_size=8)
_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(data=st.dictionaries(_KEYS, _PLAIN, max_size=4))
def test_plain_data_comes_back(tmp_path_factory: pytest.TempPathFactory, data: dict[str, object]) -> None:
    path = tmp_path_factory.getbasetemp() / "plain.yaml"
    text = json.dumps(data, ensure_ascii=False, indent=1)  # JSON is YAML 1.2
    path.write_text(text, encoding="utf-8")
    document = yamlfile.load(path, RuleError)
    assert document.data == data
    lines = text.split("\n")
    for key in data:
        assert lines[document.line((key,)) - 1].startswith(f" {json.dumps(key, ensure_ascii=False)}: ")


def test_paths_are_shown_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    path = tmp_path / "rules" / "a-rule.yaml"
    path.write_text(RULE)
    assert read_rule(path).where("edits", 0) == f"{path}:6"
    monkeypatch.chdir(tmp_path)
    assert read_rule(path).where("edits", 0) == "rules/a-rule.yaml:6"
    path.write_text("id: [")
    with pytest.raises(RuleError, match=r"^rules/a-rule\.yaml:2: not valid YAML"):
        read_rule(path)
