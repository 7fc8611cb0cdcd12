"""Thousands of placeholder tokens are spliced in as ids, not rendered to text and encoded again.

Where the text that an image replaces is not one special token, stock decodes the prompt, writes the whole
expanded placeholder into it and encodes the result. A tokenizer cuts a text at its special tokens before
anything else, so a run of n equal special tokens encodes to n equal ids whatever n is, and nothing on
either side can see n. Here each run is written once with two of its tokens; in the ids that come back it is
drawn out to its length. What the tokenizer is asked to encode is the same text but for the length of runs,
so the prompt's own text, the spaces beside a placeholder and the start of the text are treated as in stock.

Anything out of the ordinary goes stock's way: a tokenizer of another kind, a placeholder that does not begin
and end with special tokens, a prompt whose own text holds one of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_Ids = npt.NDArray[np.int64]

_RUN = 2
"""Tokens that stand for a run: two, so that a token still has its like as a neighbour."""

_MOST_KNOWN = 64
_known_runs: dict[tuple[int, int, int], tuple[list[int], tuple[_Ids, _Ids]]] = {}


def splice_placeholders(
    processor: Any, token_ids: list[int], mm_prompt_updates: Mapping[str, Sequence[Sequence[Any]]]
) -> tuple[list[int], Mapping[str, list[int | None]]] | None:
    """What `_apply_prompt_updates_via_text` returns for the same arguments, or None where stock is to do it.

    Args:
        processor: the multimodal processor.
        token_ids: the prompt.
        mm_prompt_updates: for each modality and item the resolved updates it may take.

    Returns:
        The new token ids, and for each item the index of the update that was applied.
    """
    from vllm.multimodal.processing.processor import UpdateMode, _plan_prompt_updates_with

    tokenizer = processor.info.get_tokenizer()
    special = _special_tokens(tokenizer)
    if special is None:
        return None
    text = tokenizer.decode(token_ids)
    updates, result = _plan_prompt_updates_with(
        mm_prompt_updates,
        lambda update, start_idx: processor._iter_text_matches(update, text, tokenizer, start_idx=start_idx),
    )
    if not updates or any(update.update.mode != UpdateMode.REPLACE for update in updates):
        return None

    pieces: list[str] = []
    shorts: list[tuple[int, ...]] = []
    contents: list[list[int]] = []
    at = 0
    for matched in updates:
        full = matched.update.content.full
        short = _shortened(full, special)
        if short is None or not _round_trips(tokenizer, short):
            return None
        pieces += [text[at : matched.match.start_idx], "".join(special[token] for token in short)]
        shorts.append(short)
        contents.append(full)
        at = matched.match.end_idx
    pieces.append(text[at:])
    own = pieces[::2]
    markers = {special[content[0]] for content in contents}
    if any(marker in piece for piece in own for marker in markers):
        return None

    ids = tokenizer.encode("".join(pieces), add_special_tokens=False)
    drawn_out = _draw_out(ids, shorts, contents)
    return None if drawn_out is None else (drawn_out, result)


@lru_cache(maxsize=8)
def _special_tokens(tokenizer: Any) -> Mapping[int, str] | None:
    """The special tokens by id that a fast tokenizer cuts a text at, whatever stands beside them."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "get_added_tokens_decoder"):
        return None
    return {
        token_id: token.content
        for token_id, token in backend.get_added_tokens_decoder().items()
        if token.special and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
    }


def _shortened(full: list[int], special: Mapping[int, str]) -> tuple[int, ...] | None:
    """A placeholder with each run of a token cut to two; None unless it is made of special tokens alone."""
    if len(full) < _RUN:
        return None
    tokens, lengths = _runs(full)
    runs = list(zip(tokens.tolist(), lengths.tolist(), strict=True))
    if any(token not in special for token, _ in runs):
        return None
    return tuple(token for token, length in runs for _ in range(min(_RUN, length)))


def embed_mask(full: list[int], token_id: int) -> torch.Tensor:
    """Which of the tokens are `token_id`: bool `[len(full)]`, made without torch looking at each of them."""
    tokens, lengths = _runs(full)
    return torch.from_numpy(np.repeat(tokens == token_id, lengths))


def _runs(ids: list[int]) -> tuple[_Ids, _Ids]:
    """The runs of equal ids: the id of each and its length, both int64 `[n]`; not to be written to.

    Those of the last placeholders are kept: comparing two lists is far quicker than looking at each id.
    """
    if not ids:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    place = (len(ids), ids[0], ids[-1])
    known = _known_runs.get(place)
    if known is not None and known[0] == ids:
        return known[1]
    array_of_ids = np.frombuffer(array("q", ids), np.int64)
    starts = np.flatnonzero(np.diff(array_of_ids, prepend=array_of_ids[0] - 1))
    runs = (array_of_ids[starts], np.diff(starts, append=len(ids)))
    if len(_known_runs) >= _MOST_KNOWN:
        _known_runs.clear()
    _known_runs[place] = (list(ids), runs)
    return runs


@lru_cache(maxsize=256)
def _round_trips(tokenizer: Any, short: tuple[int, ...]) -> bool:
    """Whether these special tokens decode to their own texts, nothing between, and encode to themselves."""
    special = _special_tokens(tokenizer) or {}
    text = "".join(special[token] for token in short)
    same_text: bool = tokenizer.decode(list(short)) == text
    return same_text and tokenizer.encode(text, add_special_tokens=False) == list(short)


def _draw_out(
    ids: list[int], shorts: Sequence[tuple[int, ...]], contents: Sequence[list[int]]
) -> list[int] | None:
    """Put the contents where their shortened forms stand in `ids`, in order; None where one is not found."""
    out: list[int] = []
    at = 0
    for short, content in zip(shorts, contents, strict=True):
        try:
            found = ids.index(content[0], at)
        except ValueError:
            return None
        if tuple(ids[found : found + len(short)]) != short:
            return None
        out += ids[at:found]
        out += content
        at = found + len(short)
    out += ids[at:]
    return out
