"""Prints, as one JSON line, which method real vLLM linear layers get under real quantization settings.

Run by test_fp8_engine.py in a process of its own, with an overlay first on the path.
Its argument is a folder with costs.yaml, which takes a model's config.json.
"""

import json
import logging
import sys
from pathlib import Path
from unittest.mock import patch

import torch
import vllm
from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config
from vllm.config.quantization import QuantizationConfigArgs
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.layers.linear import ColumnParallelLinear, ReplicatedLinear, RowParallelLinear
from vllm.model_executor.layers.quantization.fp8 import Fp8Config
from vllm.model_executor.layers.quantization.online.base import OnlineQuantizationConfig
from vllm.model_executor.layers.quantization.online.fp8 import Fp8PerTensorOnlineLinearMethod
from vllm.platforms import current_platform
from vllm.vlmopt_runtime import fp8_gate

SMALL, LARGE = (576, 960), (3584, 4608)  # query-key-value of a 256 M and of a 7 B model
PREFIX = {SMALL: "model.small", LARGE: "model.large"}
ONLINE = ("fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel")
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 128,
    "max_position_embeddings": 128,
    "dtype": "bfloat16",
}


def configure(folder: Path, **settings) -> VllmConfig:
    model = ModelConfig(model=str(folder), skip_tokenizer_init=True, dtype="bfloat16", **settings)
    return VllmConfig(model_config=model)


def method(config, shape, layer=ReplicatedLinear, **options) -> str:
    try:
        built = layer(*shape, bias=False, quant_config=config, prefix=PREFIX[shape], **options)
        return type(built.quant_method).__name__
    except ValueError as error:
        if "Failed to find a kernel" not in str(error):
            raise
        # vLLM's FP8 on a CPU needs AMX.
        return chosen(config, shape, layer, **options)


def chosen(config, shape, layer=ReplicatedLinear, **options) -> str:
    """The method where there is no kernel to build a layer with: the choice comes before."""
    plain = layer(*shape, bias=False, **options)
    plain.quant_config = config
    return type(config.get_quant_method(plain, PREFIX[shape])).__name__


def both(config) -> list[str]:
    return [method(config, SMALL), method(config, LARGE)]


def layered(**settings) -> Fp8Config:
    """An FP8 checkpoint, with online quantization laid over it."""
    checkpoint = Fp8Config()
    checkpoint.online_quantization_config = OnlineQuantizationConfig(QuantizationConfigArgs(**settings))
    return checkpoint


def main(folder: Path) -> dict:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    (folder / "config.json").write_text(json.dumps(LLAMA))
    torch.set_default_dtype(torch.bfloat16)
    settings = {name: configure(folder, quantization=name) for name in ONLINE}
    online = settings["fp8_per_tensor"].quant_config
    plain = configure(folder)
    results: dict = {"vllm": vllm.__file__}
    with set_current_vllm_config(plain):
        init_distributed_environment(1, 0, f"file://{folder}/store", 0, backend="gloo")
        initialize_model_parallel()
        results |= {name: both(setting.quant_config) for name, setting in settings.items()}
        named = OnlineQuantizationConfig(QuantizationConfigArgs(targets={"model.*": "fp8_per_tensor"}))
        results["targets"] = both(named)
        results["checkpoint"] = both(Fp8Config())
        results["requantized"] = both(layered(linear="fp8_per_channel"))
        ignoring = layered(linear="fp8_per_channel")
        ignoring.ignored_layers = list(PREFIX.values())  # unquantised in the checkpoint, so online takes them
        results["filled"] = both(ignoring)
        results["shards"] = [
            method(online, LARGE, ColumnParallelLinear, tp_rank=0, tp_size=2),
            method(online, LARGE, ColumnParallelLinear),
            method(online, LARGE, RowParallelLinear),
        ]
        # A CPU has no kernel for MXFP8.
        mxfp8 = OnlineQuantizationConfig(QuantizationConfigArgs(linear="mxfp8"))
        results["mxfp8"] = chosen(mxfp8, SMALL)
        results["recorded"] = sorted(online.quantized_layers)

    results["hashes"] = [config.compute_hash() for config in (plain, settings["fp8"])]
    figures = (folder / "costs.yaml").read_text().replace("activation_us: 5.5", "activation_us: 5.25")
    (folder / "costs.yaml").write_text(figures)
    fp8_gate._costs.cache_clear()
    results["hashes with other figures"] = [config.compute_hash() for config in (plain, settings["fp8"])]

    fp8_gate._costs.cache_clear()
    layer = ReplicatedLinear(*SMALL, bias=False)
    layer.quant_config = online
    with patch.object(
        current_platform, "is_cuda", return_value=True
    ):  # of a generation without FP8 arithmetic
        pays = fp8_gate.fp8_pays(online, layer, "linear", Fp8PerTensorOnlineLinearMethod)
        results["weights alone"] = [pays, fp8_gate.compile_factors(online)]
    return results


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
