"""What vLLM calls at its start (entry point `vllm.general_plugins`): makes ArgusVLM known to it."""

from __future__ import annotations

ARCHITECTURE = "ArgusVLMForConditionalGeneration"


def register() -> None:
    """Called once in each of vLLM's processes, maybe twice; imports the model only when it is served."""
    from transformers import AutoConfig
    from vllm import ModelRegistry

    from vlmopt.argus.configuration import ArgusVLMConfig

    AutoConfig.register(ArgusVLMConfig.model_type, ArgusVLMConfig, exist_ok=True)
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, f"vlmopt.argus.argusvlm:{ARCHITECTURE}")
