"""The cost of one linear layer at decode, in bf16 and in FP8.

With a few tokens a step, a product of `inputs` x `outputs` weights takes a fixed time and the time to read
its weights:

    t_bf16 = floor + 2 * inputs * outputs / bandwidth
    t_fp8  = floor + 1 * inputs * outputs / bandwidth
    gain   = t_bf16 - t_fp8 = inputs * outputs / bandwidth

FP8 must first quantise the layer's input, which takes `activation` whatever the shape. It pays where
gain > activation.

Published for an H100 and a 256 M model (arXiv 2603.16987, section 3.1): the product becomes 1.1 times faster,
each quantised activation adds 5.50 us, and the model goes from 533.28 down to 499.08 tokens/s. The bandwidth
is our assumption. The floor follows from both: the model's language part has hidden size 576, 9 query and 3
key-value heads of 64 and an intermediate size of 1536, so its four products (query-key-value, output,
gate-and-up, down) average 884,736 weights, which FP8 reads in b = 884,736 / bandwidth, and

    (floor + 2 b) / (floor + b) = 1.1    =>    floor = 9 b = 4.75 us at 1,675 GB/s

The floor takes no part in the decision; it makes the predicted times readable. All figures stand in
`fp8_costs.yaml`.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from reprlib import repr as short
from typing import Any

import yaml

BUILTIN_COSTS = Path(__file__).with_name("fp8_costs.yaml")
_LARGEST = 1e9


@dataclass(frozen=True)
class DeviceCosts:
    """Figures of one device: times in microseconds, the bandwidth in 10^9 bytes a second."""

    name: str
    match: str
    activation_us: float
    bandwidth_gb_s: float
    floor_us: float

    def gain_us(self, inputs: int, outputs: int) -> float:
        """Microseconds that FP8 saves on a product of `inputs` x `outputs` weights."""
        return inputs * outputs / (self.bandwidth_gb_s * 1e3)

    def product_us(self, inputs: int, outputs: int, weight_bytes: int) -> float:
        """Microseconds that the product takes with weights of `weight_bytes` bytes: 2 for bf16, 1 for FP8."""
        return self.floor_us + weight_bytes * self.gain_us(inputs, outputs)

    def fp8_pays(self, inputs: int, outputs: int) -> bool:
        """Whether the gain exceeds the cost of quantising the input. A tie keeps bf16."""
        return self.gain_us(inputs, outputs) > self.activation_us

    @property
    def break_even_weights(self) -> float:
        """The number of weights at which gain and overhead are equal."""
        return self.activation_us * self.bandwidth_gb_s * 1e3


@dataclass(frozen=True)
class CostTable:
    """The entries of one file, in its order, and the one that stands for every other device."""

    devices: tuple[DeviceCosts, ...]
    default: DeviceCosts

    def find(self, device_name: str) -> DeviceCosts | None:
        """The first entry whose `match` is part of `device_name`, in any case."""
        name = device_name.lower()
        return next((costs for costs in self.devices if costs.match.lower() in name), None)


def load_costs(path: Path) -> CostTable:
    """Read a cost file.

    Raises ValueError of one line, which names the file and the place, when the file cannot be read, is not
    YAML or does not have the form of `fp8_costs.yaml`.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: cannot read the FP8 costs: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the FP8 costs are not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{path}{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2001-99-99
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from None

    try:
        return _table(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _table(content: Any) -> CostTable:
    table = _mapping(content, "the file", {"default", "devices"})
    entries = table["devices"]
    if not isinstance(entries, dict) or not entries:
        raise ValueError(f"devices must map names to figures, not {short(entries)}")
    devices = {name: _device(name, figures) for name, figures in entries.items()}
    default = table["default"]
    if not isinstance(default, str) or default not in devices:
        raise ValueError(f"default must be one of {', '.join(devices)}, not {short(default)}")
    return CostTable(tuple(devices.values()), devices[default])


def _device(name: Any, figures: Any) -> DeviceCosts:
    if not isinstance(name, str):
        raise ValueError(f"devices: {short(name)} is no name; write it in quotes")
    where = f"devices.{name}"
    known = {field.name for field in fields(DeviceCosts)} - {"name"}
    entry = _mapping(figures, where, known)
    if not isinstance(entry["match"], str) or not entry["match"]:
        raise ValueError(f"{where}.match must be part of a device's name, not {short(entry['match'])}")
    return DeviceCosts(
        name=name,
        match=entry["match"],
        activation_us=_number(entry["activation_us"], f"{where}.activation_us", least=0.0),
        bandwidth_gb_s=_number(entry["bandwidth_gb_s"], f"{where}.bandwidth_gb_s", least=1.0),
        floor_us=_number(entry["floor_us"], f"{where}.floor_us", least=0.0),
    )


def _mapping(value: Any, where: str, keys: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a mapping with {', '.join(sorted(keys))}, not {short(value)}")
    if missing := keys - value.keys():
        raise ValueError(f"{where} lacks {', '.join(sorted(missing))}")
    if unknown := value.keys() - keys:
        raise ValueError(f"{where} has the unknown {', '.join(sorted(map(short, unknown)))}")
    return value


def _number(value: Any, where: str, least: float) -> float:
    # bool is an int to Python, and YAML reads a bare `yes` as one.
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _LARGEST:
        raise ValueError(f"{where} must be a number from {least:g} to {_LARGEST:g}, not {short(value)}")
    return float(value)
