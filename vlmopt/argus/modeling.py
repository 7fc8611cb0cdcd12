"""ArgusVLM for transformers: a vision encoder at several scales, an MLP projector, a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, GenerationMixin, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_outputs import BaseModelOutputWithPast, ModelOutput

from vlmopt.argus.configuration import ArgusVLMConfig
from vlmopt.argus.errors import InputError
from vlmopt.argus.multiscale import MultiScale

IGNORED = -100
"""The label of a token that is not learnt."""


@dataclass
class ArgusVLMModelOutput(BaseModelOutputWithPast):
    """What `ArgusVLMModel` gives: the language model's output, and [pictures, tokens, hidden size]."""

    image_hidden_states: torch.Tensor | None = None


@dataclass
class ArgusVLMOutput(ModelOutput):
    """What `ArgusVLMForConditionalGeneration` gives.

    Attributes:
        loss: the mean cross entropy of the labelled tokens, where labels were given.
        logits: [batch, tokens, vocabulary]; None in training mode with labels.
        past_key_values: the language model's cache.
        hidden_states, attentions: of the language model, where they were asked for.
        image_hidden_states: [pictures, tokens of a picture, hidden size], where there were pictures.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    past_key_values: Any = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None
    image_hidden_states: torch.Tensor | None = None


class ArgusVLMProjector(nn.Module):
    """From a token's features at all scales to the language model: layer norm, linear, activation, linear."""

    def __init__(self, config: ArgusVLMConfig) -> None:
        super().__init__()
        width = config.vision_config.hidden_size * config.multi_scale.width
        self.norm = nn.LayerNorm(width)
        self.linear_1 = nn.Linear(width, config.projector_hidden_size)
        self.act = ACT2FN[config.projector_hidden_act]
        self.linear_2 = nn.Linear(config.projector_hidden_size, config.text_config.hidden_size)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.linear_2(self.act(self.linear_1(self.norm(features))))


class ArgusVLMPreTrainedModel(PreTrainedModel):
    """What the classes below share."""

    config_class = ArgusVLMConfig
    base_model_prefix = "model"
    input_modalities = ("image", "text")
    supports_gradient_checkpointing = True
    _skip_keys_device_placement = ("past_key_values",)
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True


class ArgusVLMModel(ArgusVLMPreTrainedModel):
    """ArgusVLM without the head that gives logits."""

    scales: MultiScale

    def __init__(self, config: ArgusVLMConfig) -> None:
        super().__init__(config)
        self.scales = config.multi_scale
        self.vision_tower = AutoModel.from_config(config.vision_config)
        self.projector = ArgusVLMProjector(config)
        self.language_model = AutoModel.from_config(config.text_config)
        self.post_init()

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """The tokens of each picture: [pictures, 3, S, S] to [pictures, tokens, hidden size].

        Raises:
            InputError: `pixel_values` has another shape.
        """
        views = self.scales.views(pixel_values.to(self.vision_tower.dtype))
        return self.projector(self.scales.tokens(self.vision_tower(views).last_hidden_state))

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> ArgusVLMModelOutput:
        """The language model's output, and the pictures' tokens.

        `input_ids` is [batch, tokens] and holds `image_token_id` once for each token of each picture;
        `pixel_values` is [pictures, 3, S, S], in the order in which they stand in the batch.

        Raises:
            InputError: neither or both of `input_ids` and `inputs_embeds` are given, or the prompt and the
                pictures differ in their number of image tokens.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("give input_ids or inputs_embeds, and not both")
        if inputs_embeds is None:
            inputs_embeds = self.get_input_embeddings()(input_ids)
        image_tokens = None
        if pixel_values is not None:
            if input_ids is None:
                raise InputError("pictures need input_ids, which say where they stand")
            image_tokens = self.get_image_features(pixel_values)
            places = (input_ids == self.config.image_token_id).unsqueeze(-1)
            if places.sum() != image_tokens.shape[0] * image_tokens.shape[1]:
                raise InputError(
                    f"the prompt has {int(places.sum())} image tokens, its {len(image_tokens)} pictures have "
                    f"{image_tokens.shape[0] * image_tokens.shape[1]}"
                )
            inputs_embeds = inputs_embeds.masked_scatter(places, image_tokens.to(inputs_embeds.dtype))
        output = self.language_model(
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )
        return ArgusVLMModelOutput(**output, image_hidden_states=image_tokens)

    def get_input_embeddings(self) -> nn.Module:
        return self.language_model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.language_model.set_input_embeddings(value)


class ArgusVLMForConditionalGeneration(ArgusVLMPreTrainedModel, GenerationMixin):
    """ArgusVLM: answers questions about pictures, with words and boxes."""

    _tied_weights_keys = {"lm_head.weight": "model.language_model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: ArgusVLMConfig) -> None:
        super().__init__(config)
        self.model = ArgusVLMModel(config)
        self.lm_head = nn.Linear(config.text_config.hidden_size, config.text_config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def set_output_embeddings(self, value: nn.Linear) -> None:
        self.lm_head = value

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """See `ArgusVLMModel.get_image_features`."""
        return self.model.get_image_features(pixel_values)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **kwargs: Any,
    ) -> ArgusVLMOutput:
        """See `ArgusVLMModel.forward`; `labels` [batch, tokens] are ids, or -100 where nothing is learnt.

        In training mode, with labels, logits are made only where something is learnt, and not returned: of a
        row with many questions that is a quarter.
        """
        loss_kwargs = {key: kwargs.pop(key) for key in ("num_items_in_batch",) if key in kwargs}
        output = self.model(
            input_ids=input_ids,
            pixel_values=pixel_values,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )
        states, size = output.last_hidden_state, self.config.text_config.vocab_size
        loss = logits = None
        if labels is not None and self.training:
            following = labels[:, 1:]
            learnt = following != IGNORED
            loss = self.loss_function(
                logits=self.lm_head(states[:, :-1][learnt]),
                labels=None,
                shift_labels=following[learnt],
                vocab_size=size,
                **loss_kwargs,
            )
        else:
            kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            logits = self.lm_head(states[:, kept, :])
            if labels is not None:
                loss = self.loss_function(logits=logits, labels=labels, vocab_size=size, **loss_kwargs)
        return ArgusVLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=output.past_key_values,
            hidden_states=output.hidden_states,
            attentions=output.attentions,
            image_hidden_states=output.image_hidden_states,
        )
