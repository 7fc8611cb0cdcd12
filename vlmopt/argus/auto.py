"""Makes ArgusVLM known to transformers' Auto classes, by being imported."""

from __future__ import annotations

from transformers import AutoConfig, AutoModel, AutoModelForImageTextToText, AutoProcessor

from vlmopt.argus.configuration import ArgusVLMConfig
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration, ArgusVLMModel
from vlmopt.argus.processing import ArgusVLMProcessor

AutoConfig.register(ArgusVLMConfig.model_type, ArgusVLMConfig, exist_ok=True)
AutoProcessor.register(ArgusVLMConfig, ArgusVLMProcessor, exist_ok=True)
AutoModel.register(ArgusVLMConfig, ArgusVLMModel, exist_ok=True)
AutoModelForImageTextToText.register(ArgusVLMConfig, ArgusVLMForConditionalGeneration, exist_ok=True)
