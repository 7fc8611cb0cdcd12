"""The rule on the installed vLLM: real quantization settings, real linear layers, on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.models import own_specs
from vlmopt.folders import rules_folder
from vlmopt.plan import Plan, make_plan
from vlmopt.rules import read_rule
from vlmopt.runtime.fp8_cost import BUILTIN_COSTS
from vlmopt.sources import open_tree

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

BF16 = "UnquantizedLinearMethod"
METHODS = {
    "fp8": "Fp8PerTensorOnlineLinearMethod",
    "fp8_per_tensor": "Fp8PerTensorOnlineLinearMethod",
    "fp8_per_block": "Fp8PerBlockOnlineLinearMethod",
    "fp8_per_channel": "Fp8PtpcOnlineLinearMethod",
}


def lay_over(stock: Path, plan: Plan, out: Path) -> None:
    """Writes the plan's files to `out`, and links everything else of `stock` beside them."""
    texts = dict(plan.runtime_files) | {path: change.after for path, change in plan.files.items()}
    for path, text in texts.items():
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    folders = {parent for path in texts for parent in Path(path).parents if parent.parts}
    for folder in folders:
        for entry in (stock / folder).iterdir() if (stock / folder).is_dir() else ():
            beside = out / folder / entry.name
            if entry.name != "__pycache__" and not beside.exists():
                beside.symlink_to(entry)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What build_layers.py prints under the rule, and its log as `log`."""
    tree = open_tree("installed")
    assert tree.root is not None
    rule = read_rule(rules_folder() / "skip-fp8.yaml")
    overlay, folder = tmp_path_factory.mktemp("overlay"), tmp_path_factory.mktemp("model")
    lay_over(tree.root, make_plan(tree, own_specs()[0], [rule], recipes=["skip-fp8"]), overlay)
    (folder / "costs.yaml").write_bytes(BUILTIN_COSTS.read_bytes())
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("build_layers.py"), folder],
        env=os.environ
        | {
            "PYTHONPATH": str(overlay),
            "VLMOPT_FP8_COSTS": str(folder / "costs.yaml"),
            "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout.splitlines()[-1])
    assert Path(results["vllm"]).is_relative_to(overlay)
    return results | {"log": done.stderr}


@pytest.mark.parametrize("setting", METHODS)
def test_online_fp8_takes_the_large_layer_alone(built: dict, setting: str) -> None:
    assert built[setting] == [BF16, METHODS[setting]]


def test_an_fp8_checkpoint_keeps_its_own_method(built: dict) -> None:
    assert built["checkpoint"] == ["Fp8LinearMethod"] * 2


@pytest.mark.parametrize("layered", ["requantized", "filled"])
def test_online_fp8_over_a_checkpoint_is_left_alone(built: dict, layered: str) -> None:
    assert built[layered] == [METHODS["fp8_per_channel"]] * 2


def test_layers_that_the_user_names_are_left_alone(built: dict) -> None:
    assert built["targets"] == [METHODS["fp8_per_tensor"]] * 2


def test_other_formats_are_left_alone(built: dict) -> None:
    assert built["mxfp8"] == "Mxfp8OnlineLinearMethod"


def test_a_shard_is_decided_by_its_own_size(built: dict) -> None:
    assert built["shards"] == [BF16, METHODS["fp8_per_tensor"], METHODS["fp8_per_tensor"]]


def test_vllm_counts_only_what_became_fp8(built: dict) -> None:
    assert built["recorded"] == ["model.large"]


def test_the_figures_are_part_of_the_compilation_key(built: dict) -> None:
    plain, online = built["hashes"]
    plain_after, online_after = built["hashes with other figures"]
    assert plain == plain_after
    assert online != online_after


def test_where_fp8_is_a_format_of_the_weights_alone_the_gate_has_no_say(built: dict) -> None:
    assert built["weights alone"] == [True, []]


def test_figures_and_decisions_are_logged_once(built: dict) -> None:
    lines = [line for line in built["log"].splitlines() if line.startswith("skip-fp8: ")]
    figures = "'cpu', which has none of its own: weights at 1675 GB/s, {} us a quantised activation"
    assert sum(figures.format("5.5") in line for line in lines) == 1
    assert sum(figures.format("5.25") in line for line in lines) == 1  # after the change of figures
    decisions = [line for line in lines if " -> " in line]
    assert [line.split(":")[1] for line in decisions] == [
        " 576 -> 960 keeps bf16",
        " 3584 -> 4608 becomes FP8",
        " 3584 -> 2304 keeps bf16",
    ]
    assert "saves 0.33 us and costs 5.50 us" in decisions[0]
