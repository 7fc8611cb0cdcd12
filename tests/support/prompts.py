"""Requests for tests: a prompt in one of many shapes, with the images of `tests.support.images`."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from tests.support.images import ImageCase, random_image
from tests.support.models import Model
from tests.support.protocol import Request

# What may stand before a placeholder: nothing, plain text, half a placeholder, other scripts.
BETWEEN = ["", "", "", " ", "\n", "Image: ", "ünï 😀 ", "<image", "  \n\n ", "<|im_end|>", "日本語"]


@dataclass(frozen=True)
class RequestCase:
    """One request of a model, as a description that can be printed.

    `between` holds a text for each placeholder in the prompt, which comes before it. There is one placeholder
    an image, except where a test wants the count to be wrong.
    `given` says how the prompt arrives: as text, as the token ids of that text, or as token ids that no
    tokenizer would make of it (single bytes, and half a character).
    """

    images: tuple[ImageCase, ...]
    between: tuple[str, ...]
    given: Literal["text", "ids", "odd-ids"] = "text"
    processor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    cached: bool = False

    def build(self, model: Model, tokenizer: Tokenizer) -> Request:
        """The request itself."""
        images = "".join(text + model.image for text in self.between)
        prompt: str | list[int] = model.prompt.format(images=images)
        if self.given == "ids":
            prompt = tokenizer.encode(prompt).ids
        elif self.given == "odd-ids":
            prompt = odd_ids(tokenizer, prompt)
        made = {case: case.build() for case in self.images}
        return Request(prompt, tuple(made[case] for case in self.images), self.processor_kwargs, self.cached)

    def smaller(self) -> list["RequestCase"]:
        """Simpler requests to try when this one fails: first one image alone, then each extra taken away."""
        singles = [
            replace(self, images=(image,), between=("",)) for image in self.images if len(self.images) > 1
        ]
        plain = [
            replace(self, between=("",) * len(self.images)),
            replace(self, given="text"),
            replace(self, processor_kwargs={}),
            replace(self, cached=False),
        ]
        return [case for case in singles + plain if case != self]


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder that `build_model_folder` made."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def odd_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Token ids of `prompt` with ordinary words spelt in single bytes, and half a character at the end."""
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    ids: list[int] = []
    for number in tokenizer.encode(prompt).ids:
        if number in special:
            ids.append(number)
        else:
            ids += [tokenizer.token_to_id(letter) for letter in tokenizer.id_to_token(number)]
    half = tokenizer.encode("é").tokens[0][0]
    return [*ids, tokenizer.token_to_id(half)]


def random_request(rng: random.Random, model: Model, *, huge: bool = False) -> RequestCase:
    """Draws a request of one to four images, or of one image when it is huge."""
    if huge:
        return RequestCase((random_image(rng, huge=True),), ("",))
    images = [random_image(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4]))]
    if len(images) > 1 and rng.random() < 0.3:
        images[-1] = images[0]
    placeholders = len(images) + (rng.choice([-1, 1]) if rng.random() < 0.03 else 0)
    return RequestCase(
        tuple(images),
        tuple(rng.choice(BETWEEN) for _ in range(placeholders)),
        rng.choice(["text", "text", "text", "ids", "odd-ids"]),
        rng.choice(model.processor_kwargs) if rng.random() < 0.15 else {},
        rng.random() < 0.4,
    )
