"""Asks a server for a chat answer, and reads all of it that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from vlmopt.engine.protocol import Answer, Error
from vlmopt.engine.server import MODEL, Server

CHAT = "/v1/chat/completions"
TOP_LOGPROBS = 3


@dataclass(frozen=True)
class ChatAnswer:
    """One chat answer: token ids, log-probabilities or error, and what else the server says.

    `status` is HTTP's, and 0 from a server that is gone. The error's kind is the status and the name of its
    class; an answer that breaks off while it is streamed has status 200 and an error. `counted` is the number
    of prompt tokens by the server's own account. `alive` says whether the server was well after an error.
    """

    status: int
    answer: Answer
    text: str = ""
    finish: str | None = None
    counted: int = 0
    alive: bool = True


def greedy(messages: list[dict[str, Any]], tokens: int, **more: Any) -> dict[str, Any]:
    """The body of a chat request for exactly `tokens` greedy tokens, whose answer names all that it knows.

    `more` holds further fields of the request.
    """
    return {
        "model": MODEL,
        "messages": messages,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "logprobs": True,
        "top_logprobs": TOP_LOGPROBS,
    } | more


def ask(server: Server, body: Mapping[str, Any]) -> ChatAnswer:
    """The answer to one chat request, streamed where the body says so.

    Raises:
        ServerError: the server is gone, or gave no answer in time.
    """
    if body.get("stream"):
        response, events = server.stream(CHAT, dict(body) | {"stream_options": {"include_usage": True}})
        if response.is_success:
            return _read(events, "delta")
    else:
        response = server.post(CHAT, body)
        if response.is_success:
            return _read([response.json()], "message")
    return ChatAnswer(response.status_code, Answer(error=_refusal(response)), alive=server.well())


def _read(documents: Iterable[Mapping[str, Any]], part: str) -> ChatAnswer:
    """An answer from its chunks, or from the one document that it is."""
    error, finish, counted = None, None, 0
    prompt, tokens, texts = list[int](), list[int](), list[str]()
    steps = list[tuple[tuple[int, float], ...]]()
    for document in documents:
        if "error" in document:
            error = _error(httpx.codes.OK, document["error"])
            continue
        prompt += document.get("prompt_token_ids") or ()
        counted = (document.get("usage") or {"prompt_tokens": counted})["prompt_tokens"]
        for choice in document["choices"]:
            texts.append(choice[part].get("content") or "")
            tokens += choice.get("token_ids") or ()
            finish = choice.get("finish_reason") or finish
            steps += map(_step, (choice.get("logprobs") or {}).get("content") or ())
    answer = Answer(tuple(prompt), tuple(tokens), tuple(steps), error)
    return ChatAnswer(httpx.codes.OK, answer, "".join(texts), finish, counted)


def _step(entry: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    return tuple(
        (int(each["token"].removeprefix("token_id:")), each["logprob"])
        for each in (entry, *entry["top_logprobs"])
    )


def _refusal(response: httpx.Response) -> Error:
    try:
        return _error(response.status_code, response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return Error(f"HTTP {response.status_code}", response.text)


def _error(status: int, error: Mapping[str, Any]) -> Error:
    of = f" of {error['param']}" if error.get("param") else ""
    return Error(f"HTTP {status} {error['type']}{of}", error["message"])
