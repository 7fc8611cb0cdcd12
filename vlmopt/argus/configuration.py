"""ArgusVLM's configuration for transformers."""

from __future__ import annotations

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto import CONFIG_MAPPING

from vlmopt.argus.multiscale import MultiScale, multi_scale


@strict
class ArgusVLMConfig(PreTrainedConfig):
    """Encoder, projector and language model.

    Args:
        vision_config: of the vision encoder (`siglip_vision_model`); its `image_size` is a tile's.
        text_config: of the language model, of any type that transformers knows as a causal one.
        scales, cells, token_side: see `vlmopt.argus.multiscale`; `token_side` squared is the number of tokens
            that a picture takes in the prompt.
        projector_hidden_size: the width between the projector's two layers.
        image_token_id: the token that stands for a picture's tokens in the prompt.
    """

    model_type = "argusvlm"
    sub_configs: ClassVar[dict[str, Any]] = {"vision_config": AutoConfig, "text_config": AutoConfig}

    vision_config: Any = None
    text_config: Any = None
    scales: list[int] | tuple[int, ...] = (1, 2)
    cells: list[int] | tuple[int, ...] = (3, 3)
    token_side: int = 9
    projector_hidden_size: int = 1152
    projector_hidden_act: str = "gelu"
    image_token_id: int = 0
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        self.vision_config = _sub_config(self.vision_config, "siglip_vision_model")
        self.text_config = _sub_config(self.text_config, "llama")
        super().__post_init__(**kwargs)

    @property
    def multi_scale(self) -> MultiScale:
        """The arithmetic of the scales; raises InputError where the numbers do not fit."""
        vision = self.vision_config
        return multi_scale(self.scales, self.cells, vision.image_size, vision.patch_size, self.token_side)


def _sub_config(given: dict[str, Any] | PreTrainedConfig | None, default: str) -> PreTrainedConfig:
    if isinstance(given, PreTrainedConfig):
        return given
    settings = dict(given or {})
    return CONFIG_MAPPING[settings.pop("model_type", default)](**settings)
