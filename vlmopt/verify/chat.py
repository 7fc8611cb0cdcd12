"""The chat half of the request space: what clients send to the OpenAI server, as descriptions."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from hypothesis import strategies as st

from vlmopt.engine.client import greedy
from vlmopt.specs import Requests
from vlmopt.verify.images import ImageCase, image_cases
from vlmopt.verify.requests import processor_arguments, texts

Wrong = Literal["missing file", "outside", "half a URL", "not base64", "unknown scheme"]
By = Literal["base64", "file", Wrong]
MOST_TOKENS = 8


@dataclass(frozen=True)
class ChatImage:
    """An image file in a message, and how its URL brings it.

    `base64` is a data URL, `file` a file URL in the folder that the server may read. The others are URLs that
    a server must refuse: of a file that is not there, of one outside that folder, a data URL without a comma
    or with other letters than base64 has, and a scheme that there is not.
    """

    image: ImageCase
    by: By = "base64"

    def __str__(self) -> str:
        return f"{self.image}, by {self.by}"

    def url(self, media: Path, name: str) -> str:
        """The URL; a file is written into `media` under `name`, or beside it."""
        file = self.image.file()
        if self.by in ("file", "outside"):
            path = (media if self.by == "file" else media.parent) / name
            path.write_bytes(file)
            return path.as_uri()
        if self.by == "missing file":
            return (media / "missing").as_uri()
        if self.by == "unknown scheme":
            return f"image:{name}"
        url = data_url(file, self.image.form)
        if self.by == "half a URL":
            return url.replace(",", "", 1)
        return url.replace(",", ",*", 1) if self.by == "not base64" else url


Part = str | ChatImage


def data_url(file: bytes, form: str) -> str:
    """The URL that holds an image file itself; `form` is its format, as Pillow names it."""
    return f"data:image/{form.lower()};base64,{base64.b64encode(file).decode()}"


@dataclass(frozen=True)
class ChatCase:
    """One chat request for greedy tokens and their log-probabilities.

    `turns` holds what the user says: texts and images in any order. Between two turns the assistant answers
    with one word. With `again` the request is sent a second time, when the server's caches know its images.
    """

    turns: tuple[tuple[Part, ...], ...] = ((),)
    system: str = ""
    processor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    tokens: int = 1
    stream: bool = False
    again: bool = False

    def images(self) -> list[ChatImage]:
        """All images, in the order of the messages."""
        return [part for turn in self.turns for part in turn if isinstance(part, ChatImage)]

    def body(self, media: Path) -> dict[str, Any]:
        """The request's JSON. Files that it names by URL are written into `media`, or beside it."""
        messages: list[dict[str, Any]] = []
        if self.system:
            messages.append({"role": "system", "content": self.system})
        written: dict[ChatImage, str] = {}
        for number, turn in enumerate(self.turns):
            if number:
                messages.append({"role": "assistant", "content": "Yes."})
            for image in turn:
                if isinstance(image, ChatImage) and image not in written:
                    name = f"{len(written)}.{image.image.form.lower()}"
                    written[image] = image.url(media, name)
            messages.append({"role": "user", "content": [_part(each, written) for each in turn]})
        more: dict[str, Any] = {"stream": True} if self.stream else {}
        if self.processor_kwargs:
            more["mm_processor_kwargs"] = dict(self.processor_kwargs)
        return greedy(messages, self.tokens, **more)

    def words(self) -> list[str]:
        """The request in lines that a person can read."""
        head = [f"{self.tokens} tokens", *(["streamed"] if self.stream else [])]
        head += [f"mm_processor_kwargs {dict(self.processor_kwargs)}"] if self.processor_kwargs else []
        head += [f"system message {self.system!r}"] if self.system else []
        head += ["sent twice"] if self.again else []
        lines = [f"chat request: {'; '.join(head)}"]
        for number, turn in enumerate(self.turns, 1):
            lines += [
                f"  turn {number}: {part if isinstance(part, ChatImage) else repr(part)}" for part in turn
            ]
        return lines


def _part(part: Part, urls: Mapping[ChatImage, str]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": urls[part]}}


@st.composite
def chat_cases(draw: st.DrawFn, requests: Requests, *, large: bool = False) -> ChatCase:
    """Chat requests with zero to four images; shrinks to one small image without text, asked once.

    With `large` a single image may be beyond the largest grid of tiles.
    """
    count = draw(st.sampled_from((1,) * 8 + (0,) + (2,) * 4 + (3, 4)))
    by = st.sampled_from(("base64",) * 3 + ("file",))
    images = [
        ChatImage(draw(image_cases(files=True, large=large and count == 1)), draw(by)) for _ in range(count)
    ]
    if count > 1 and draw(st.integers(0, 2)) == 1:
        images[-1] = ChatImage(images[0].image, images[-1].by)
    if images and (wrong := draw(st.sampled_from((None,) * 40 + get_args(Wrong)))):
        images[-1] = ChatImage(images[-1].image, wrong)
    # The placeholder itself as text makes a wrong count, which is mostly refused: rarely.
    words = st.sampled_from((False,) * 30 + (True,)).flatmap(
        lambda whole: st.just(requests.image) if whole else texts(requests)
    )
    return ChatCase(
        draw(_turns(images, words)),
        draw(st.sampled_from(("", "", "", "", "Answer briefly."))),
        draw(processor_arguments(requests)),
        draw(st.integers(1, MOST_TOKENS)),
        draw(st.booleans()),
        draw(st.sampled_from((False, False, False, True))),
    )


@st.composite
def _turns(
    draw: st.DrawFn, images: Sequence[ChatImage], words: st.SearchStrategy[str]
) -> tuple[tuple[Part, ...], ...]:
    """The images in their order, with texts before, between and after, mostly in one message."""
    turns: list[list[Part]] = [[]]
    for image in images:
        if turns[-1] and draw(st.sampled_from((False,) * 7 + (True,))):
            turns.append([])
        turns[-1] += [draw(words)] if draw(st.booleans()) else []
        turns[-1].append(image)
    if not images or draw(st.booleans()):
        turns[-1].append(draw(words))
    return tuple(map(tuple, turns))
