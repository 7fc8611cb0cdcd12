"""What a prompt gains for packed pictures is asked of stock once for pictures of these sizes, and then kept.

Stock works out anew for each request which tokens stand for its images: thousands of them, with a
processor made and grids searched on the way. For packed images the answer is a function of the pictures'
sizes, and that is not assumed but made so: stock is asked with stand-ins for the pictures, which have a
size and nothing else, and with the small fields that were computed from sizes. Where it asks a stand-in
for anything more, nothing is kept for this processor, and stock is asked each time.

vLLM's own processor cache hands the same updates to many requests, so they may be shared.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image
from vllm.logger import init_logger

from . import keys
from .probing import is_probing

logger = init_logger("vllm.vlmopt_runtime.updates")

Updates = Mapping[str, Sequence[Sequence[Any]]]
_MOST = 64
"""Requests' worth of updates that a processor keeps; one with four large pictures takes about 0.1 MB."""
_STATE = "_vlmopt_updates"


def kept_updates(
    processor: Any, mm_items: Any, hf_kwargs: Mapping[str, object], mm_kwargs: Any
) -> Updates | None:
    """What `_get_mm_prompt_updates` returns for the same arguments, or None where stock is to work it out.

    Args:
        processor: the multimodal processor.
        mm_items: the parsed items of one request (`MultiModalDataItems`).
        hf_kwargs: processor arguments of this request.
        mm_kwargs: the processor's output for these items (`MultiModalKwargsItems`).
    """
    if hf_kwargs or is_probing() or list(mm_items) != ["image"] or list(mm_kwargs) != ["image"]:
        return None
    if not all(item is not None and keys.PLAN in item for item in mm_kwargs["image"]):
        return None
    kept: _Kept = processor.__dict__.setdefault(_STATE, _Kept())
    return kept.updates(processor, mm_items, mm_kwargs)


class _Kept:
    """The updates of one processor by the sizes of a request's pictures, in their order."""

    def __init__(self) -> None:
        self._by_sizes: dict[tuple[tuple[int, int], ...], Updates] = {}
        self._lock = threading.Lock()
        self._trusted = True

    def updates(self, processor: Any, mm_items: Any, mm_kwargs: Any) -> Updates | None:
        if not self._trusted:
            return None
        sizes = tuple(picture.size for picture in mm_items["image"].get_all())
        found = self._by_sizes.get(sizes)
        if found is None:
            found = self._asked(processor, mm_items, mm_kwargs, sizes)
            if found is None:
                return None
            with self._lock:
                if len(self._by_sizes) >= _MOST:
                    del self._by_sizes[next(iter(self._by_sizes))]
                self._by_sizes[sizes] = found
        return {modality: [list(item) for item in items] for modality, items in found.items()}

    def _asked(
        self, processor: Any, mm_items: Any, mm_kwargs: Any, sizes: Sequence[tuple[int, int]]
    ) -> Updates | None:
        """Stock's updates for pictures of which only the size is known; None where that does not do."""
        asked: list[str] = []
        pictures = copy.copy(mm_items["image"])
        pictures.data = [SizeAlone(size, asked) for size in sizes]
        small = [
            type(item)({key: value for key, value in item.items() if not keys.is_packed(key)})
            for item in mm_kwargs["image"]
        ]
        try:
            unbound = processor._get_prompt_updates(
                type(mm_items)({"image": pictures}), {}, type(mm_kwargs)({"image": small})
            )
            updates: Updates = processor._bind_and_group_updates(unbound, {"image": len(sizes)})
        except Exception as error:
            asked.append(f"{type(error).__name__}: {error}")
        if asked:
            self._trusted = False
            logger.debug(
                "vlmopt: the placeholders of %s are not kept: %s", type(processor).__name__, asked[0]
            )
            return None
        return updates


class SizeAlone(Image.Image):
    """A picture with a size and nothing else; what it was asked for beyond that is noted in `asked`."""

    def __init__(self, size: tuple[int, int], asked: list[str]) -> None:
        self._size = size
        self._asked = asked

    def __getattribute__(self, name: str) -> Any:
        if name not in ("size", "width", "height", "_size", "_asked", "__class__"):
            object.__getattribute__(self, "_asked").append(name)
            raise AttributeError(f"a picture of which only the size is known was asked for {name}")
        return super().__getattribute__(name)
