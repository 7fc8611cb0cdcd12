"""Tokenizers: the family's tokens added to a language model's own, or a small one learnt from the scenes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from vlmopt.argus.boxes import CLOSE, OPEN, BoxFormat
from vlmopt.argus.errors import InputError
from vlmopt.argus.processing import IMAGE
from vlmopt.argus.scenes import Scenes

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_SCENES = 800
_MERGES_UP_TO = 640
_LENGTH = 1024


def extend_tokenizer(tokenizer: Any, form: BoxFormat) -> Any:
    """Adds to a language model's tokenizer what it lacks: `<image>`, `<box>`, `</box>`, the format's.

    Box tokens are ordinary ones, so that an answer that is decoded without special tokens keeps its boxes.

    Raises:
        InputError: the tokenizer has no `<|im_start|>` and `<|im_end|>`, which the chat template needs.
    """
    vocabulary = tokenizer.get_vocab()
    missing = [token for token in (START, END) if token not in vocabulary]
    if missing:
        raise InputError(
            f"the tokenizer has no {' and no '.join(missing)}: take that of an instruction-tuned model"
        )
    tokenizer.add_tokens([AddedToken(IMAGE, special=True, normalized=False)], special_tokens=True)
    tokenizer.add_tokens([_ordinary(token) for token in (OPEN, CLOSE, *form.tokens)])
    return tokenizer


def scene_tokenizer(form: BoxFormat) -> Any:
    """A byte-level tokenizer whose words are those of the scenes; digits stand alone. Always the same."""
    core = Tokenizer.from_str(_learnt())
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, eos_token=END, model_max_length=_LENGTH, padding_side="right"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": [START]})
    return extend_tokenizer(tokenizer, form)


@lru_cache(maxsize=1)
def _learnt() -> str:
    """The tokenizer without the family's tokens, as JSON."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_MERGES_UP_TO,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[PAD, START, END],
        show_progress=False,
    )
    core.train_from_iterator(_sentences(), trainer)
    return core.to_str()


def _ordinary(token: str) -> AddedToken:
    return AddedToken(token, special=False, normalized=False)


def _sentences() -> Iterator[str]:
    """Everything that is said in some scenes, without the boxes, and the words of the chat template."""
    scenes = Scenes("train", count=_SCENES)
    yield from ["user\n", "assistant\n", "system\n"] * _SCENES
    for index in range(_SCENES):
        for example in scenes[index].examples:
            yield example.question
            yield example.answer.replace(OPEN + CLOSE, "")
