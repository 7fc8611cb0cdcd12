"""Decides, as vLLM builds a linear layer, whether online FP8 pays for it (the cost model: `fp8_cost.py`).

vLLM asks `fp8_pays` once for every layer that online quantization would take. The gate answers for linear
layers under a model-wide online FP8 setting alone. A checkpoint that is quantised already, layers that the
user chose by `targets`, the experts of a MoE and every other format keep what stock gives them.
"""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from vllm.logger import init_logger

from .fp8_cost import BUILTIN_COSTS, DeviceCosts, load_costs

if TYPE_CHECKING:
    from vllm.model_executor.layers.quantization.base_config import QuantizationConfig

# vllm.config imports this module, so whatever imports vllm.config in turn is imported where it is needed.

logger = init_logger(__name__)


def fp8_pays(config: "QuantizationConfig", layer: torch.nn.Module, source: str, method: type) -> bool:
    """Whether `layer` shall have the online method that vLLM chose for it, rather than bf16.

    `config` is the online configuration that was asked, `source` the part of it that chose (`linear`, `moe`,
    `targets`), `method` the chosen class. True wherever the gate has no say.

    Raises ValueError, in one line, for a cost file that `load_costs` refuses.
    """
    from vllm.model_executor.layers.linear import LinearBase

    if not isinstance(layer, LinearBase) or source != "linear" or not _quantizes_activations(method):
        return True
    # Laid over a quantised checkpoint, this configuration is not the layer's own; such layers are left alone.
    if layer.quant_config is not config or (costs := _costs()) is None:
        return True

    # What one device multiplies. Layers without tensor parallelism do not set the sizes of a partition.
    inputs = getattr(layer, "input_size_per_partition", layer.input_size)
    outputs = getattr(layer, "output_size_per_partition", layer.output_size)
    pays = costs.fp8_pays(inputs, outputs)
    logger.info_once(
        "skip-fp8: %d -> %d %s: the product takes %.2f us in bf16 and %.2f us in FP8, "
        "which saves %.2f us and costs %.2f us for quantising the input",
        inputs,
        outputs,
        "becomes FP8" if pays else "keeps bf16",
        costs.product_us(inputs, outputs, weight_bytes=2),
        costs.product_us(inputs, outputs, weight_bytes=1),
        costs.gain_us(inputs, outputs),
        costs.activation_us,
        scope="global",
    )
    return pays


def compile_factors(config: "QuantizationConfig | None") -> list[str]:
    """What the gate adds to the key of vLLM's compilation cache: the figures that choose the FP8 layers.

    The key holds the user's setting, not the method of each layer, so without them a graph compiled by stock,
    or under other figures, would be loaded for layers of another type. Empty where the gate has no say.
    """
    if config is None or config.get_name() != "online" or (costs := _costs()) is None:
        return []
    return [f"skip-fp8 {costs.activation_us} {costs.bandwidth_gb_s}"]


def _quantizes_activations(method: type) -> bool:
    # Methods that leave it to their kernel (MXFP8) say None, and MXFP4 says another type.
    key = getattr(method, "activation_quant_key", None)
    return key is not None and key.dtype in (torch.float8_e4m3fn, torch.float8_e4m3fnuz)


@cache
def _costs() -> DeviceCosts | None:
    """This device's figures; None where FP8 is a format of the weights alone and quantises no activation."""
    from vllm.platforms import current_platform

    if current_platform.is_cuda() and not current_platform.supports_fp8():
        logger.info_once(
            "skip-fp8: this device multiplies FP8 weights with bf16 activations, so every layer becomes FP8",
            scope="global",
        )
        return None
    path = Path(os.environ.get("VLMOPT_FP8_COSTS") or BUILTIN_COSTS)
    table = load_costs(path)
    device = current_platform.get_device_name()
    match = table.find(device)
    costs = match or table.default
    logger.info_once(
        "skip-fp8: figures '%s' of %s for the device '%s'%s: weights at %g GB/s, "
        "%g us a quantised activation; FP8 pays above %.2f M weights a layer",
        costs.name,
        path.name if path == BUILTIN_COSTS else path,
        device,
        "" if match else ", which has none of its own",
        costs.bandwidth_gb_s,
        costs.activation_us,
        costs.break_even_weights / 1e6,
        scope="global",
    )
    return costs
