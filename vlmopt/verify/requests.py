"""The request space: prompts in many shapes, with the images of `vlmopt.verify.images`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from vlmopt.engine.protocol import Request
from vlmopt.specs import Requests
from vlmopt.verify.images import ImageCase, image_cases, mostly

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PLAIN_TEXTS = ["", "", "", " ", "\n", "Image: ", "ünï 😀 ", "  \n\n ", "日本語", "<", "'s"]
Given = Literal["text", "ids", "odd ids"]


@dataclass(frozen=True)
class RequestCase:
    """One request of a model, as a description that can be printed and written down.

    `between` holds a text for each placeholder in the prompt, which comes before it, and `after` comes after
    the last. There is one placeholder an image, except where the count is meant to be wrong.
    `given` says how the prompt arrives: as text, as the token ids of that text, or as token ids that no
    tokenizer would make of it (single bytes, and half a character).
    """

    images: tuple[ImageCase, ...] = ()
    between: tuple[str, ...] = ()
    after: str = ""
    given: Given = "text"
    processor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    cached: bool = False

    def text(self, requests: Requests) -> str:
        """The prompt."""
        images = "".join(text + requests.image for text in self.between) + self.after
        return requests.prompt.replace("{images}", images)

    def build(self, requests: Requests, tokenizer: Tokenizer) -> Request:
        """The request itself."""
        prompt: str | list[int] = self.text(requests)
        if self.given == "ids":
            prompt = tokenizer.encode(prompt).ids
        elif self.given == "odd ids":
            prompt = odd_ids(tokenizer, str(prompt))
        made = {case: case.build() for case in self.images}
        return Request(prompt, tuple(made[case] for case in self.images), self.processor_kwargs, self.cached)


Case = tuple[RequestCase, ...]
"""Requests that are in the engine together: their images are batched, and they share its caches."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def odd_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Token ids of `prompt` with ordinary words spelt in single bytes, and half a character at the end."""
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    ids: list[int] = []
    for number in tokenizer.encode(prompt).ids:
        spelt = [] if number in special else _letters(tokenizer, number)
        ids += spelt or [number]
    return [*ids, *_letters(tokenizer, tokenizer.encode("é").ids[0])[:1]]


def _letters(tokenizer: Tokenizer, number: int) -> list[int]:
    """The single bytes of a token, as token ids; empty where the vocabulary lacks one."""
    letters = [tokenizer.token_to_id(letter) for letter in tokenizer.id_to_token(number) or ""]
    return [letter for letter in letters if letter is not None] if None not in letters else []


def texts(requests: Requests) -> st.SearchStrategy[str]:
    """What may stand around a placeholder: nothing, plain text, other scripts, pieces of the placeholder."""
    image = requests.image
    pieces = [image[:-1], image[1:], image[: len(image) // 2], image[0] * 2, image.upper()]
    special = [word for word in ("<|im_end|>", "<|endoftext|>") if word not in image]
    return st.sampled_from(PLAIN_TEXTS) | st.sampled_from(pieces + special) | st.text(max_size=8)


@st.composite
def request_cases(draw: st.DrawFn, requests: Requests, *, large: bool = True) -> RequestCase:
    """Requests of zero to four images; shrinks to one small image without text."""
    count = draw(mostly(1, 0, 2, 2, 3, 4, of=40))
    images = [draw(image_cases(large=large and count == 1)) for _ in range(count)]
    if count > 1 and (again := draw(st.sampled_from(("no", "the same", "of the same size")))) != "no":
        images[-1] = images[0] if again == "the same" else replace(images[0], content="noise", seed=1000)
    wrong = draw(mostly(0, 1, -1, of=40))
    words = texts(requests)
    return RequestCase(
        tuple(images),
        tuple(draw(words) for _ in range(max(0, count + wrong))),
        draw(words),
        draw(st.sampled_from(("text", "text", "text", "ids", "odd ids"))),
        draw(processor_arguments(requests)),
        draw(st.booleans()),
    )


def processor_arguments(requests: Requests) -> st.SearchStrategy[Mapping[str, Any]]:
    """Mostly none."""
    some = st.sampled_from(requests.processor_kwargs) if requests.processor_kwargs else st.just({})
    return mostly(0, 1, of=8).flatmap(lambda given: some if given else st.just({}))


@st.composite
def cases(draw: st.DrawFn, requests: Requests, *, large: bool = True) -> Case:
    """One to three requests. A later one may have the images of the first, and its arguments or others."""
    first = draw(request_cases(requests, large=large))
    out = [first]
    for _ in range(draw(mostly(0, 1, 1, 2, of=30))):
        other = draw(request_cases(requests, large=False))
        again = draw(st.booleans())
        if first.images and again:
            other = RequestCase(
                first.images, first.between, first.after, first.given, other.processor_kwargs, first.cached
            )
        out.append(other)
    return tuple(out)


def in_words(number: int, request: RequestCase) -> list[str]:
    """A request in lines that a person can read: what is not the usual."""
    head = [f"prompt as {request.given}"] if request.given != "text" else []
    if request.processor_kwargs:
        head.append(f"mm_processor_kwargs {dict(request.processor_kwargs)}")
    if request.cached:
        head.append("through the processor cache")
    texts = [text for text in (*request.between, request.after) if text]
    if texts:
        head.append(f"texts around the images {texts}")
    if len(request.between) != len(request.images):
        head.append(f"{len(request.between)} placeholders for {len(request.images)} images")
    lines = [f"request {number}: " + ("; ".join(head) or "nothing but its images")]
    return lines + [f"  image {index}: {image}" for index, image in enumerate(request.images, 1)]
