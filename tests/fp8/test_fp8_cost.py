"""The cost model and its file, without vLLM."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.runtime.fp8_cost import BUILTIN_COSTS, DeviceCosts, load_costs

MODELS = yaml.safe_load(Path(__file__).with_name("layer_shapes.yaml").read_text())
BUILTIN = load_costs(BUILTIN_COSTS)
PUBLISHED_MODEL = next(iter(MODELS["bf16"].values()))

sizes = st.integers(min_value=1, max_value=1 << 17)
microseconds = st.floats(min_value=0, max_value=1e4)
costs = st.builds(
    DeviceCosts,
    name=st.just("device"),
    match=st.just("device"),
    activation_us=microseconds,
    bandwidth_gb_s=st.floats(min_value=1, max_value=1e5),
    floor_us=microseconds,
)


def every_layer(verdict: str) -> list:
    return [
        pytest.param(*shape, id=f"{model} {shape[0]}-{shape[1]}")
        for model, shapes in MODELS[verdict].items()
        for shape in shapes
    ]


@pytest.mark.parametrize(("inputs", "outputs"), every_layer("bf16"))
def test_a_256m_model_keeps_bf16_everywhere(inputs: int, outputs: int) -> None:
    assert not BUILTIN.default.fp8_pays(inputs, outputs)


@pytest.mark.parametrize(("inputs", "outputs"), every_layer("fp8"))
def test_a_7b_model_and_larger_ones_become_fp8_everywhere(inputs: int, outputs: int) -> None:
    assert BUILTIN.default.fp8_pays(inputs, outputs)


def test_the_built_in_figures_give_back_the_published_ones() -> None:
    h100 = BUILTIN.find("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    assert h100.activation_us == 5.50
    bf16 = sum(h100.product_us(*shape, weight_bytes=2) for shape in PUBLISHED_MODEL)
    fp8 = sum(h100.product_us(*shape, weight_bytes=1) for shape in PUBLISHED_MODEL)
    assert bf16 / fp8 == pytest.approx(1.1, abs=1e-3)
    # The published model got slower: all four overheads together outweigh all four gains.
    assert bf16 < fp8 + 4 * h100.activation_us


@given(costs, sizes, sizes, sizes, sizes)
def test_a_larger_layer_never_loses_fp8(
    figures: DeviceCosts, inputs: int, outputs: int, more: int, wider: int
) -> None:
    if figures.fp8_pays(inputs, outputs):
        assert figures.fp8_pays(inputs + more, outputs)
        assert figures.fp8_pays(inputs, outputs + wider)


@given(costs, sizes, sizes, st.floats(min_value=0, max_value=1e4))
def test_a_dearer_activation_never_wins_fp8(
    figures: DeviceCosts, inputs: int, outputs: int, extra: float
) -> None:
    if not figures.fp8_pays(inputs, outputs):
        assert not replace(figures, activation_us=figures.activation_us + extra).fp8_pays(inputs, outputs)


@given(costs, sizes, sizes)
def test_the_decision_is_the_comparison_of_the_predicted_times(
    figures: DeviceCosts, inputs: int, outputs: int
) -> None:
    bf16 = figures.product_us(inputs, outputs, weight_bytes=2)
    fp8 = figures.product_us(inputs, outputs, weight_bytes=1) + figures.activation_us
    if abs(bf16 - fp8) > 1e-6 * bf16:
        assert figures.fp8_pays(inputs, outputs) == (fp8 < bf16)
        assert figures.fp8_pays(inputs, outputs) == (inputs * outputs > figures.break_even_weights)


def test_a_tie_keeps_bf16() -> None:
    figures = DeviceCosts("d", "d", activation_us=2.0, bandwidth_gb_s=1.0, floor_us=0.0)
    assert not figures.fp8_pays(50, 40)
    assert figures.fp8_pays(50, 41)


ENTRY = {"match": "H100", "activation_us": 5.5, "bandwidth_gb_s": 1675, "floor_us": 4.75}


def write(folder: Path, content: object) -> Path:
    path = folder / "costs.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return path


def test_the_first_entry_that_matches_counts_in_any_case(tmp_path: Path) -> None:
    devices = {"other": ENTRY | {"match": "L40S"}, "nvl": ENTRY | {"match": "h100 nvl"}, "h100": ENTRY}
    table = load_costs(write(tmp_path, {"default": "other", "devices": devices}))
    names = {"NVIDIA H100 NVL": "nvl", "NVIDIA H100 80GB HBM3": "h100", "nvidia l40s": "other"}
    for device, expected in names.items():
        found = table.find(device)
        assert found is not None
        assert found.name == expected
    assert table.find("cpu") is None
    assert table.default.name == "other"


def refusal(path: Path) -> str | None:
    """What `load_costs` says of a file; None when it takes it."""
    try:
        load_costs(path)
    except ValueError as error:
        return str(error)
    return None


def one(**changed: object) -> dict:
    return {"default": "a", "devices": {"a": ENTRY | changed}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("default: a\ndevices: [\n", "costs.yaml:3: not YAML: "),
        ("default: *a\n", "costs.yaml:1: not YAML: found undefined alias"),
        ("default: !!python/object/apply:os.getcwd []\n", "costs.yaml:1: not YAML: could not determine"),
        ("default: 2001-99-99\n", "costs.yaml: not YAML: month must be in 1..12"),
        ("default: \x00\n", "costs.yaml: not YAML: unacceptable character #x0000"),
        ("", "the file must be a mapping with default, devices, not None"),
        ("- default\n", "the file must be a mapping with default, devices, not ['default']"),
        ("default: a\n", "the file lacks devices"),
        (one() | {"note": 1}, "the file has the unknown 'note'"),
        ({"default": "a", "devices": {}}, "devices must map names to figures, not {}"),
        ({"default": "b", "devices": {"a": ENTRY}}, "default must be one of a, not 'b'"),
        ({"default": [1], "devices": {"a": ENTRY}}, "default must be one of a, not [1]"),
        ({"default": "a", "devices": {100: ENTRY}}, "devices: 100 is no name; write it in quotes"),
        ({"default": "a", "devices": {"a": None}}, "devices.a must be a mapping with activation_us, "),
        (
            {"default": "a", "devices": {"a": {"match": "x"}}},
            "devices.a lacks activation_us, bandwidth_gb_s, ",
        ),
        (one(bandwith=1), "devices.a has the unknown 'bandwith'"),
        (one(match=100), "devices.a.match must be part of a device's name, not 100"),
        (one(match=""), "devices.a.match must be part of a device's name, not ''"),
        (
            one(activation_us="5.5 us"),
            "devices.a.activation_us must be a number from 0 to 1e+09, not '5.5 us'",
        ),
        (one(activation_us=-1), "devices.a.activation_us must be a number from 0 to 1e+09, not -1"),
        (one(activation_us=True), "devices.a.activation_us must be a number from 0 to 1e+09, not True"),
        (one(floor_us=10**400), "devices.a.floor_us must be a number from 0 to 1e+09, not 1000"),
        (one(floor_us=float("nan")), "devices.a.floor_us must be a number from 0 to 1e+09, not nan"),
        (one(bandwidth_gb_s=0), "devices.a.bandwidth_gb_s must be a number from 1 to 1e+09, not 0"),
        (
            one(bandwidth_gb_s=float("inf")),
            "devices.a.bandwidth_gb_s must be a number from 1 to 1e+09, not inf",
        ),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path, content)
    refused = refusal(path)
    assert refused is not None
    assert refused.startswith(str(path))
    assert message in refused
    assert "\n" not in refused


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.yaml: cannot read the FP8 costs: No such file"):
        load_costs(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"default: \xe9\n")
    with pytest.raises(ValueError, match=r"latin\.yaml: the FP8 costs are not UTF-8 text"):
        load_costs(tmp_path / "latin.yaml")


contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["default", "devices", "a", *ENTRY]), inner)
        | st.fixed_dictionaries(dict.fromkeys(["default", "devices"], inner))
        | st.fixed_dictionaries(dict.fromkeys(ENTRY, inner))
    ),
    max_leaves=12,
)


@given(contents | st.text("ad:{}[]&*!-'\"# \n\t\x00\U0001f600"))
def test_any_content_loads_or_is_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    path = write(tmp_path_factory.mktemp("costs"), content)
    refused = refusal(path)
    assert refused is None or (refused.startswith(str(path)) and "\n" not in refused)
