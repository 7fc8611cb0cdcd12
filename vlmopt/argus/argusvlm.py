"""ArgusVLM for vLLM, written as vLLM writes its own models."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

import torch
from torch import nn
from transformers import BatchFeature
from vllm.config import VllmConfig
from vllm.config.multimodal import MultiModalDummyOptions
from vllm.inputs import MultiModalDataDict
from vllm.model_executor.models.interfaces import MultiModalEmbeddings, SupportsMultiModal, SupportsPP
from vllm.model_executor.models.module_mapping import MultiModelKeys
from vllm.model_executor.models.siglip import SiglipVisionModel
from vllm.model_executor.models.utils import (
    AutoWeightsLoader,
    WeightsMapper,
    init_vllm_registered_model,
    maybe_prefix,
)
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItems
from vllm.multimodal.parse import MultiModalDataItems
from vllm.multimodal.processing import (
    BaseDummyInputsBuilder,
    BaseMultiModalProcessor,
    BaseProcessingInfo,
    PromptReplacement,
    PromptUpdate,
)
from vllm.sequence import IntermediateTensors
from vllm.utils.tensor_schema import TensorSchema, TensorShape

from vlmopt.argus.configuration import ArgusVLMConfig
from vlmopt.argus.modeling import ArgusVLMProjector
from vlmopt.argus.multiscale import MultiScale
from vlmopt.argus.processing import IMAGE, ArgusVLMProcessor


class ArgusVLMImagePixelInputs(TensorSchema):
    """Pictures, each a square of `s` pixels.

    Dimensions:
        - n: number of pictures
        - s: side of a picture
    """

    type: Literal["pixel_values"] = "pixel_values"
    pixel_values: Annotated[torch.Tensor, TensorShape("n", 3, "s", "s")]


class ArgusVLMProcessingInfo(BaseProcessingInfo):
    def get_hf_config(self) -> ArgusVLMConfig:
        return self.ctx.get_hf_config(ArgusVLMConfig)

    def get_hf_processor(self, **kwargs: object) -> ArgusVLMProcessor:
        return self.ctx.get_hf_processor(ArgusVLMProcessor, **kwargs)

    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        return {"image": self.get_hf_processor().max_images}

    def get_num_image_tokens(self) -> int:
        return self.get_hf_config().multi_scale.token_count


class ArgusVLMDummyInputsBuilder(BaseDummyInputsBuilder[ArgusVLMProcessingInfo]):
    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        return IMAGE * mm_counts.get("image", 0)

    def get_dummy_mm_data(
        self,
        seq_len: int,
        mm_counts: Mapping[str, int],
        mm_options: Mapping[str, MultiModalDummyOptions],
    ) -> MultiModalDataDict:
        side = self.info.get_hf_config().multi_scale.picture
        return {
            "image": self._get_dummy_images(
                width=side,
                height=side,
                num_images=mm_counts.get("image", 0),
                overrides=mm_options.get("image"),
            )
        }


class ArgusVLMMultiModalProcessor(BaseMultiModalProcessor[ArgusVLMProcessingInfo]):
    def _get_mm_fields_config(
        self,
        hf_inputs: BatchFeature,
        hf_processor_mm_kwargs: Mapping[str, object],
    ) -> Mapping[str, MultiModalFieldConfig]:
        return {"pixel_values": MultiModalFieldConfig.batched("image")}

    def _get_prompt_updates(
        self,
        mm_items: MultiModalDataItems,
        hf_processor_mm_kwargs: Mapping[str, object],
        out_mm_kwargs: MultiModalKwargsItems,
    ) -> Sequence[PromptUpdate]:
        image_token_id = self.info.get_hf_config().image_token_id
        return [
            PromptReplacement(
                modality="image",
                target=[image_token_id],
                replacement=[image_token_id] * self.info.get_num_image_tokens(),
            )
        ]


@MULTIMODAL_REGISTRY.register_processor(
    ArgusVLMMultiModalProcessor,
    info=ArgusVLMProcessingInfo,
    dummy_inputs=ArgusVLMDummyInputsBuilder,
)
class ArgusVLMForConditionalGeneration(nn.Module, SupportsMultiModal, SupportsPP):
    config: ArgusVLMConfig
    scales: MultiScale
    vision_tower: SiglipVisionModel

    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_prefix={
            "model.language_model.": "language_model.model.",
            "model.vision_tower.": "vision_tower.vision_model.",
            "model.projector.": "projector.",
            "lm_head.": "language_model.lm_head.",
        }
    )

    @classmethod
    def get_placeholder_str(cls, modality: str, i: int) -> str | None:
        if modality.startswith("image"):
            return IMAGE
        raise ValueError("Only image modality is supported")

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.config = config
        self.scales = config.multi_scale
        self.configure_mm_token_handling(  # type: ignore[operator]
            vocab_size=config.text_config.vocab_size, mm_token_ids=[config.image_token_id]
        )
        with self._mark_tower_model(vllm_config, "image"):  # type: ignore[operator]
            self.vision_tower = SiglipVisionModel(
                config.vision_config,
                quant_config=vllm_config.quant_config,
                prefix=maybe_prefix(prefix, "vision_tower"),
            )
            self.projector = ArgusVLMProjector(config)
        with self._mark_language_model(vllm_config):  # type: ignore[operator]
            self.language_model = init_vllm_registered_model(
                vllm_config=vllm_config,
                hf_config=config.text_config,
                prefix=maybe_prefix(prefix, "language_model"),
            )
        self.make_empty_intermediate_tensors = self.language_model.make_empty_intermediate_tensors

    def _parse_and_validate_image_input(self, **kwargs: object) -> ArgusVLMImagePixelInputs | None:
        pixel_values = kwargs.pop("pixel_values", None)
        if pixel_values is None:
            return None
        return ArgusVLMImagePixelInputs(
            type="pixel_values",
            pixel_values=pixel_values,
            resolve_bindings={"s": self.scales.picture},
        )

    def embed_multimodal(self, **kwargs: object) -> MultiModalEmbeddings:
        image_input = self._parse_and_validate_image_input(**kwargs)
        if image_input is None:
            return []
        pixel_values = image_input["pixel_values"].to(self.vision_tower.dtype)
        features = self.vision_tower(self.scales.views(pixel_values))
        return self.projector(self.scales.tokens(features))

    def forward(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: object,
    ) -> torch.Tensor | IntermediateTensors:
        if intermediate_tensors is not None:
            inputs_embeds = None
        return self.language_model.model(
            input_ids, positions, intermediate_tensors, inputs_embeds=inputs_embeds
        )

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        return self.language_model.compute_logits(hidden_states)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> set[str]:
        loader = AutoWeightsLoader(self)
        return loader.load_weights(weights, mapper=self.hf_to_vllm_mapper)

    def get_mm_mapping(self) -> MultiModelKeys:
        return MultiModelKeys.from_string_field(
            language_model="language_model", connector="projector", tower_model="vision_tower"
        )
