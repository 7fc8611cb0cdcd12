"""Makes a member of the family from nothing, or from a pretrained encoder and language model."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, GenerationConfig, SiglipImageProcessor, set_seed
from transformers.utils import logging

import vlmopt.argus.auto  # noqa: F401  (makes the classes known to AutoModel)
from vlmopt.argus.boxes import BoxFormat, load_format
from vlmopt.argus.configuration import ArgusVLMConfig
from vlmopt.argus.errors import InputError
from vlmopt.argus.family import CONFIGS, Member, Parameters, load_member
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import IMAGE, ArgusVLMProcessor
from vlmopt.argus.tokens import END, PAD, extend_tokenizer, scene_tokenizer


def build_config(member: Member) -> ArgusVLMConfig:
    """The configuration at the member's true size."""
    return ArgusVLMConfig(**deepcopy(member.config))


def count_parameters(config: ArgusVLMConfig) -> Parameters:
    """Counts without making the weights."""
    with torch.device("meta"):
        model = ArgusVLMForConditionalGeneration(config)
    parts = (model.model.vision_tower, model.model.projector, model.model.language_model)
    vision, projector, language = (sum(p.numel() for p in part.parameters()) for part in parts)
    if not config.tie_word_embeddings:
        language += model.lm_head.weight.numel()
    return Parameters(
        vision=vision, projector=projector, language=language, total=vision + projector + language
    )


def build_processor(
    member: Member, *, tokenizer: Path | None = None, form: BoxFormat | None = None
) -> ArgusVLMProcessor:
    """The processor of a member.

    Args:
        tokenizer: the folder of the language model's tokenizer, where the member needs one.
        form: another box format than the member's own.

    Raises:
        InputError: the member needs a tokenizer and none was given, or it cannot be read or does not fit.
    """
    form = load_format(member.box_format) if form is None else form
    if member.tokenizer == "scenes":
        made = scene_tokenizer(form)
    elif tokenizer is None:
        raise InputError(f"{member.name} needs the tokenizer of {member.tokenizer}: give its folder")
    else:
        try:
            made = extend_tokenizer(AutoTokenizer.from_pretrained(tokenizer), form)
        except (OSError, ValueError) as error:
            raise InputError(f"no tokenizer can be read from {tokenizer}: {error}") from error
    scales = build_config(member).multi_scale
    return ArgusVLMProcessor(
        SiglipImageProcessor(size={"height": scales.picture, "width": scales.picture}),
        made,
        chat_template=(CONFIGS / "chat_template.jinja").read_text("utf-8"),
        image_tokens=scales.token_count,
        box_format=form.settings(),
        max_images=member.max_images,
    )


def build_model(
    member: Member,
    processor: ArgusVLMProcessor,
    *,
    seed: int = 0,
    vision: Path | None = None,
    language: Path | None = None,
) -> ArgusVLMForConditionalGeneration:
    """A model that fits the processor, in float32, with weights by chance.

    Args:
        seed: the same one gives the same weights.
        vision, language: folders of pretrained models whose weights take the place of those by chance, or of
            an ArgusVLM that has the part; a vocabulary that is smaller than the processor's fills the first
            rows.

    Raises:
        InputError: a pretrained model cannot be read or has another shape.
    """
    config = build_config(member)
    tokens = processor.tokenizer
    config.image_token_id = tokens.convert_tokens_to_ids(IMAGE)
    # The rows of a named configuration are for its own box format; another one needs other rows.
    known = config.text_config.vocab_size
    config.text_config.vocab_size = len(tokens) if member.tokenizer == "scenes" else max(known, len(tokens))
    end, pad = (tokens.convert_tokens_to_ids(token) for token in (END, PAD))
    for part in (config, config.text_config):
        part.bos_token_id, part.eos_token_id, part.pad_token_id = None, end, pad
    set_seed(seed)
    model = ArgusVLMForConditionalGeneration(config)
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=pad, do_sample=False)
    if vision is not None:
        _adopt(model.model.vision_tower, vision, "vision_tower")
    if language is not None:
        _adopt(model.model.language_model, language, "language_model")
    return model.eval()


def build(
    name: str, *, tokenizer: Path | None = None, form: BoxFormat | None = None, seed: int = 0
) -> tuple[ArgusVLMForConditionalGeneration, ArgusVLMProcessor]:
    """A member with weights by chance, and its processor. Arguments and errors as above."""
    member = load_member(name)
    processor = build_processor(member, tokenizer=tokenizer, form=form)
    return build_model(member, processor, seed=seed), processor


def _adopt(part: Any, folder: Path, name_in_whole: str) -> None:
    """Copies pretrained weights into a part of the model."""
    logging.disable_progress_bar()  # it would show on a pipe, too
    try:
        given = AutoModel.from_pretrained(folder, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise InputError(f"no pretrained model can be read from {folder}: {error}") from error
    given = getattr(given, name_in_whole, given)
    theirs = getattr(given, "vision_model", given).state_dict()
    for name, own in part.state_dict().items():
        weight = theirs.get(name)
        grows = name.endswith("embed_tokens.weight") and weight is not None and len(weight) <= len(own)
        if weight is None or (weight.shape != own.shape and not grows):
            shape = "nothing" if weight is None else str(list(weight.shape))
            raise InputError(f"{folder} has {shape} where this model has {name} {list(own.shape)}")
        own[: len(weight)] = weight
