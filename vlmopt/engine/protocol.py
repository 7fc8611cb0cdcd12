"""What is asked of a process with a vLLM in it, and what it answers.

Both sides of the pipe import this file and nothing else of ours, so it imports no vLLM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TensorImage:
    """An image that is to be handed to vLLM as a torch tensor, uint8, channels first."""

    array: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Request:
    """One prompt with its images, as one user would send it.

    `images` holds what vLLM itself accepts: PIL images of any mode and numpy arrays go in as they are, a
    `TensorImage` as a torch tensor; ``bytes`` are an encoded file and are opened as the server opens them
    (``ImageMediaIO``).
    `cached` sends the request through the worker's processor cache, which is the default way of a server.
    `more` is data of other modalities, and takes the place of the images where it names theirs; `uuids` are
    the user's own names of items, by modality.
    """

    prompt: str | list[int]
    images: tuple[Any, ...]
    mm_processor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    cached: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    uuids: Mapping[str, list[str | None]] | None = None


@dataclass(frozen=True)
class Error:
    """An exception: the name of its class, its message, and the exception that it was raised from."""

    kind: str
    message: str
    cause: Error | None = None


@dataclass(frozen=True)
class Placeholder:
    """A range of placeholder tokens in the token ids.

    `is_embed` says of each token of the range if an embedding takes its place; None means all of them.
    """

    modality: str
    offset: int
    length: int
    is_embed: tuple[bool, ...] | None

    def __str__(self) -> str:
        embeddings = self.length if self.is_embed is None else sum(self.is_embed)
        return f"{self.modality} at {self.offset}, {self.length} tokens, {embeddings} of them embeddings"


@dataclass(frozen=True)
class Tensor:
    """One tensor (or plain value) that the model gets.

    `digest` is the BLAKE3 of its bytes in C order; `data` holds those bytes where they were asked for.
    `dtype` is torch's name of the type; for a plain value it is the Python type, and `digest` its repr.
    """

    shape: tuple[int, ...]
    dtype: str
    digest: str
    data: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Prompt:
    """What became of one request in the frontend; `sent` counts the bytes that leave for the engine."""

    token_ids: tuple[int, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    hashes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error: Error | None = None
    sent: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Batch:
    """One call of ``embed_multimodal``: the modality, how many items, and its keyword arguments.

    A list argument has one entry an element, named ``key[0]``, ``key[1]``, ... `embeddings` holds what the
    call returned, one tensor an item, where it was made.
    """

    modality: str
    items: int
    tensors: Mapping[str, Tensor]
    embeddings: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The answer to requests that were batched together: each prompt, then what the model gets."""

    prompts: tuple[Prompt, ...]
    batches: tuple[Batch, ...] = ()
    error: Error | None = None


@dataclass(frozen=True)
class Load:
    """Makes the model in `folder` the one that the next messages speak of. Answered by None.

    `config` holds further arguments of ``ModelConfig``.
    """

    folder: str
    trust_remote_code: bool
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Process:
    """Asks for the `Outcome` of requests whose items are batched together.

    With `data` the tensors of the answer carry their bytes; with `embed` the vision tower runs on each batch.
    """

    requests: tuple[Request, ...]
    data: bool = False
    embed: bool = False


@dataclass(frozen=True)
class Generate:
    """Asks for the greedy answers (`Answered`) to requests that arrive together, `tokens` tokens each.

    With `until_end` an answer ends with the model's own end of text, where that comes earlier.
    """

    requests: tuple[Request, ...]
    tokens: int
    until_end: bool = False


@dataclass(frozen=True)
class Answer:
    """An answer: token ids of the prompt and of the text, and of each step the likeliest tokens.

    `logprobs` has one entry a step: (token id, log-probability) in the order of the engine. `text` is what
    the engine made of the tokens, without special ones.
    """

    prompt: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    logprobs: tuple[tuple[tuple[int, float], ...], ...] = ()
    error: Error | None = None
    text: str = ""


@dataclass(frozen=True)
class Answered:
    """The answers to requests that arrived together, and every batch that entered the vision tower."""

    answers: tuple[Answer, ...]
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True)
class Time:
    """Asks for the `Timing` of one request (its images must be encoded files)."""

    request: Request


@dataclass(frozen=True)
class Timing:
    """Seconds of opening the images and of the processor call, bytes for the engine, and prompt tokens."""

    decode_s: float
    processor_s: float
    sent: int
    tokens: int


@dataclass(frozen=True)
class Wait:
    """Asks an engine for the `Latency` of `tokens` tokens, or the `Error` of a request that it refuses."""

    request: Request
    tokens: int


@dataclass(frozen=True)
class Latency:
    """Seconds from encoded images and prompt text to an engine's last token, and the prompt tokens."""

    seconds: float
    prompt_tokens: int


@dataclass(frozen=True)
class Describe:
    """Asks an engine for what it is (`About`). `forget` begins the peak of the device's memory anew."""

    forget: bool = False


@dataclass(frozen=True)
class About:
    """What an engine runs on, and how.

    Attributes:
        accelerator: the device's name; None on a CPU.
        threads: of torch.
        settings: the engine's arguments beside vLLM's defaults, as text.
        device_normalizes: upstream's `mm_device_do_normalize`, as it came out for this model; None where this
            vLLM has no such switch.
        device_peak: the most bytes that torch held on the accelerator; None on a CPU.
    """

    device: str
    accelerator: str | None
    threads: int
    settings: Mapping[str, str]
    device_normalizes: bool | None
    device_peak: int | None


@dataclass(frozen=True)
class Hello:
    """The first message of a worker: where its vLLM was imported from, its version, its kind of device.

    `plugin` is where the package that a fork overlays beside vLLM is imported from; None where there is none.
    """

    vllm: str
    version: str
    device: str
    plugin: str | None = None


@dataclass(frozen=True)
class Forget:
    """Empties an engine's caches of images and of their embeddings. Answered by None."""


@dataclass(frozen=True)
class Trace:
    """Starts or stops vLLM's own profiler of an engine that was loaded with one. Answered by None."""

    on: bool


Message = Load | Process | Generate | Time | Wait | Describe | Forget | Trace
