"""Loads a trained ArgusVLM from its folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.utils import logging

import vlmopt.argus.auto  # noqa: F401  (makes the classes known to the Auto classes)
from vlmopt.argus.configuration import ArgusVLMConfig
from vlmopt.argus.errors import InputError
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor

SHIPPED = Path(__file__).parent / "checkpoints" / "argusvlm-tiny"


def load(
    folder: Path, dtype: torch.dtype = torch.float32
) -> tuple[ArgusVLMForConditionalGeneration, ArgusVLMProcessor]:
    """The model, ready to answer, and its processor.

    Raises:
        InputError: the folder holds no checkpoint, that of another model, or a broken one.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"no checkpoint in {folder}: it has no config.json; `vlmopt argus train` makes one")
    logging.disable_progress_bar()  # it would show on a pipe, too
    try:
        kind = json.loads(path.read_text("utf-8")).get("model_type")
        if kind != ArgusVLMConfig.model_type:
            raise InputError(f"{path} is of a model of type {kind!r}, not {ArgusVLMConfig.model_type!r}")
        model, loaded = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=dtype, local_files_only=True, output_loading_info=True
        )
        for what, names in loaded.items():
            if names:  # else transformers would make the weights by chance
                some = sorted(map(str, names))
                raise InputError(
                    f"the checkpoint in {folder} has {what.replace('_', ' ')}: {some[0]}, ...; train it anew"
                )
        processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
    except InputError:
        raise
    except Exception as error:  # safetensors, tokenizers and transformers each raise their own
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the checkpoint in {folder} cannot be read: {first}; train or get it anew"
        ) from error
    return model.eval(), processor


def shipped() -> Path:
    """The folder of the trained checkpoint that comes with vlmopt.

    Raises:
        InputError: this vlmopt has none.
    """
    if not (SHIPPED / "config.json").is_file():
        raise InputError(
            "this vlmopt comes without a trained checkpoint: name one; `vlmopt argus train` makes them"
        )
    return SHIPPED
