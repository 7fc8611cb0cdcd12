"""What a plan writes: the text of every changed file, step by step, and the runtime files."""

from pathlib import Path

import pytest

from vlmopt.errors import ConflictError, RuleError, SourceError, SpecError
from vlmopt.folders import runtime_folder
from vlmopt.modules import Modules
from vlmopt.plan import make_plan
from vlmopt.rules import load_rules
from vlmopt.runtimefiles import with_imports

from .cases import (
    FAST_RESIZE,
    FILES,
    MODEL,
    MOVE,
    NORMALIZE,
    PINNED,
    RESIZE,
    SCALE,
    SPEC,
    UTILS,
    of,
    plan,
    statuses,
    write_rule,
)
from .memory_tree import MemoryTree


def test_rules_compose_in_order_on_the_original_text(tmp_path: Path) -> None:
    write_rule(tmp_path, "b-normalize", NORMALIZE, needs=["c-resize"])
    write_rule(tmp_path, "c-resize", PINNED, FAST_RESIZE)
    made = plan(tmp_path)
    assert [one.rule.id for one in made.rules] == ["c-resize", "b-normalize"]
    assert statuses(made) == {"c-resize": ("applied", ""), "b-normalize": ("applied", "")}
    resized = FILES[MODEL].replace("resize(images", "fast_resize(images")
    both = resized.replace("pixels / 255", "table(pixels)").replace(
        "import torch\n", "import torch\nfrom vllm.vlmopt_runtime import table\n"
    )
    change = made.files[MODEL]
    assert change.before == FILES[MODEL]
    assert change.steps == (("c-resize", resized), ("b-normalize", both))
    assert change.after == both
    assert made.files[UTILS].after == FILES[UTILS].replace("device)", "device, pinned=True)")
    assert of(made, "c-resize").files == (MODEL, UTILS)
    assert of(made, "b-normalize").files == (MODEL,)


def test_a_plan_of_its_own_result_changes_nothing(tmp_path: Path) -> None:
    write_rule(tmp_path, "normalize", NORMALIZE)
    write_rule(tmp_path, "pinned", PINNED)
    first = plan(tmp_path)
    second = plan(tmp_path, MemoryTree({path: change.after for path, change in first.files.items()}))
    assert statuses(second) == {
        "normalize": ("already-upstream", "already in this tree"),
        "pinned": ("already-upstream", "already in this tree"),
    }
    assert second.files == {}
    assert second.runtime_files == {}


def test_a_rule_that_is_there_in_part_is_completed(tmp_path: Path) -> None:
    write_rule(tmp_path, "two", FAST_RESIZE, PINNED)
    done = plan(tmp_path).files[UTILS].after
    made = plan(tmp_path, MemoryTree(FILES | {UTILS: done}))
    assert statuses(made) == {"two": ("applied", "edit 2 of 2 already there")}
    assert of(made, "two").files == (MODEL,)


def test_two_rules_at_one_place_are_a_conflict(tmp_path: Path) -> None:
    write_rule(tmp_path, "normalize", NORMALIZE)
    write_rule(tmp_path, "other", SCALE | {"replace": "$x = pixels * (1 / 255)"})
    write_rule(tmp_path, "pinned", PINNED)
    with pytest.raises(ConflictError) as e:
        plan(tmp_path)
    assert e.value.exit_code == 3
    message = str(e.value)
    assert "\n" not in message
    assert message.startswith(f"{MODEL}: ")
    assert all(part in message for part in ("normalize", "other", "8", "--skip other"))
    made = plan(tmp_path, strict=False)
    status, reason = statuses(made)["other"]
    assert status == "drifted"
    assert reason.startswith(f"conflict in {MODEL}: ")
    assert made.files[MODEL].steps == (("normalize", made.files[MODEL].after),)
    assert "/ 255" not in made.files[MODEL].after
    assert statuses(plan(tmp_path, skip=["other"]))["normalize"] == ("applied", "")


def test_a_conflict_in_one_file_leaves_the_rules_other_files_alone(tmp_path: Path) -> None:
    write_rule(tmp_path, "a", PINNED)
    write_rule(tmp_path, "b", NORMALIZE, MOVE | {"replace": "moved(item)"})
    made = plan(tmp_path, strict=False)
    assert statuses(made)["b"][0] == "drifted"
    assert set(made.files) == {UTILS}


def test_runtime_files_are_those_of_applied_rules(tmp_path: Path) -> None:
    write_rule(tmp_path, "normalize", NORMALIZE, runtime=["restore.py"])
    write_rule(tmp_path, "pinned", PINNED, runtime=["fp8_gate.py"], when={"images.geometry": "unknown"})
    made = plan(tmp_path)
    names = {path.removeprefix("vllm/vlmopt_runtime/") for path in made.runtime_files}
    assert names == {"__init__.py", *with_imports(["restore.py"])} > {"__init__.py", "restore.py"}
    assert names == {"__init__.py", *of(made, "normalize").rule.runtime}
    text = (runtime_folder() / "restore.py").read_text()
    assert made.runtime_files["vllm/vlmopt_runtime/restore.py"] == text
    assert plan(tmp_path, skip=["normalize"]).runtime_files == {}


def test_of_several_files_the_first_that_exists(tmp_path: Path) -> None:
    write_rule(tmp_path, "pinned", PINNED | {"file": ["vllm/new/utils.py", UTILS, MODEL]})
    assert set(plan(tmp_path).files) == {UTILS}


def test_the_tree_is_asked_for_all_files_at_once(tmp_path: Path) -> None:
    elsewhere = {"file": "vllm/old.py", "match": "old_move($_)"}
    write_rule(tmp_path, "pinned", PINNED | {"already": [elsewhere]}, already=[elsewhere | {"file": UTILS}])
    write_rule(tmp_path, "normalize", NORMALIZE, contract="approximate")
    write_rule(tmp_path, "resize", RESIZE | {"replace": "r"}, when={"images.geometry": "unknown"})
    tree = MemoryTree(FILES | {"vllm/old.py": "pass\n"})
    plan(tmp_path, tree)
    assert tree.prefetched == ["vllm/old.py", UTILS]
    assert MODEL not in tree.reads


def test_a_shared_cache_reads_each_file_once(tmp_path: Path) -> None:
    write_rule(tmp_path, "pinned", PINNED)
    write_rule(tmp_path, "normalize", NORMALIZE)
    tree = MemoryTree(FILES)
    modules = Modules(tree)
    plans = [make_plan(tree, SPEC, load_rules(tmp_path), modules=modules) for _ in range(3)]
    assert sorted(tree.reads) == [MODEL, UTILS]
    assert plans[0].files == plans[2].files


@pytest.mark.parametrize(
    "file", ["${model.evil}", "vllm/../x.py", "/etc/x.py", "x.py", "vllm\\x.py", "vllm//x.py"]
)
def test_a_rule_cannot_reach_out_of_the_tree(tmp_path: Path, file: str) -> None:
    write_rule(tmp_path, "pinned", PINNED | {"file": file})
    tree = MemoryTree(FILES)
    with pytest.raises(RuleError, match=r"pinned\.yaml:6: .* is not a path inside the tree") as e:
        plan(tmp_path, tree)
    assert e.value.exit_code == 2
    assert tree.reads == []


@pytest.mark.parametrize(
    ("change", "line"),
    [({"within": "class ${model.klass}"}, 9), ({"replace": "${x}"}, 8), ({"match": "${x}"}, 7)],
)
def test_an_unknown_variable_is_named_with_its_place(
    tmp_path: Path, change: dict[str, str], line: int
) -> None:
    write_rule(tmp_path, "pinned", PINNED | change)
    with pytest.raises(RuleError, match=rf"pinned\.yaml:{line}: unknown variable .*: spec tiny-1b does not"):
        plan(tmp_path)


def test_a_malformed_pattern_is_named_with_its_place(tmp_path: Path) -> None:
    write_rule(tmp_path, "pinned", PINNED, MOVE | {"match": "move(((", "replace": "x"})
    with pytest.raises(RuleError, match=r"pinned\.yaml:9: edit 2: ") as e:
        plan(tmp_path)
    assert "\n" not in str(e.value)


def test_a_source_that_is_not_python_is_named_with_its_place(tmp_path: Path) -> None:
    write_rule(tmp_path, "pinned", PINNED)
    with pytest.raises(
        SourceError, match=r"vllm/utils\.py:2: .*vLLM 1\.2\.3 \(memory\) cannot be parsed"
    ) as e:
        plan(tmp_path, MemoryTree(FILES | {UTILS: "def batch(items):\n    return move(item, device))\n"}))
    assert "\n" not in str(e.value)


def test_a_spec_that_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    write_rule(tmp_path, "normalize", NORMALIZE)
    tree = MemoryTree(FILES, without=[MODEL])
    with pytest.raises(SpecError, match=rf"spec tiny-1b: {MODEL} is not in vLLM 1\.2\.3 \(memory\)"):
        plan(tmp_path, tree)
    made = plan(tmp_path, tree, strict=False)
    assert statuses(made)["normalize"] == ("drifted", f"edit 1: {MODEL} is not in this vLLM")


def test_code_that_is_not_python_is_refused_with_the_rule_and_the_place(tmp_path: Path) -> None:
    write_rule(tmp_path, "a-sound", PINNED)
    write_rule(tmp_path, "broken", RESIZE | {"replace": "resize($...rest, images)"})
    with pytest.raises(
        RuleError, match=r"broken\.yaml:\d+: after rule broken, .*positional argument"
    ) as raised:
        plan(tmp_path)
    assert raised.value.exit_code == 2
