"""Where images leave the processor as bytes: the two places of stock's code that the recipes reach into.

`pack_images` stands at the head of the processor's image call. Everything that the packer does not
understand it leaves to stock: other modalities, embeddings, per-request processor arguments, pictures that
are not PIL images, sizes that its geometry does not cover. The packer is made at the first image, which is
the profiling run of the server's start; where the model's processor does not do what the spec says, that is
said once and stock does the work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger
from vllm.multimodal.inputs import MultiModalFieldConfig

from . import keys
from .geometry import Unsupported
from .probing import is_probing, stock_behaviour

if TYPE_CHECKING:
    from transformers import BatchFeature

    from .packer import Packer

logger = init_logger("vllm.vlmopt_runtime.packing")


_building = threading.Lock()


def pack_images(processor: Any, mm_items: Any, hf_kwargs: Mapping[str, object]) -> BatchFeature | None:
    """The processor's output for images alone, packed; None where the stock processor is to do the work.

    Args:
        processor: the multimodal processor; its class carries the spec as `vlmopt_images`.
        mm_items: the parsed items of one request (`MultiModalDataItems`).
        hf_kwargs: processor arguments of this request.
    """
    if is_probing() or hf_kwargs or not hasattr(processor, "vlmopt_images"):
        return None
    modalities = [modality for modality, items in mm_items.items() if items]
    if modalities != ["image"] or mm_items["image"].get_passthrough_data():
        return None
    packer = _packer_of(processor)
    if packer is None:
        return None
    try:
        return packer.pack(mm_items["image"].get_all())
    except Unsupported:
        return None
    except Exception:
        # A broken picture must fail as it fails in stock, with stock's error.
        logger.debug("vlmopt: an image is left to the stock processor", exc_info=True)
        return None


def with_packed_fields(
    hf_inputs: Mapping[str, object], config_by_key: Mapping[str, MultiModalFieldConfig]
) -> Mapping[str, MultiModalFieldConfig]:
    """The fields of a processor's output, packed ones included."""
    if keys.PLAN not in hf_inputs:
        return config_by_key
    packed = {
        key: MultiModalFieldConfig.batched("image", keep_on_cpu=keys.payload_field(key) is None)
        for key in hf_inputs
        if keys.is_packed(key)
    }
    return {**config_by_key, **packed}


def _packer_of(processor: Any) -> Packer | None:
    state = processor.__dict__
    if "_vlmopt_packer" not in state:
        with _building:
            if "_vlmopt_packer" not in state:
                state["_vlmopt_packer"] = _build(processor)
    packer: Packer | None = state["_vlmopt_packer"]
    return packer


def _build(processor: Any) -> Packer | None:
    from .calibrate import Mismatch
    from .packer import Packer

    architecture = processor.vlmopt_architecture
    if architecture not in processor.info.ctx.model_config.architectures:
        return None
    start = time.perf_counter()
    try:
        with stock_behaviour():
            packer = Packer(processor, processor.vlmopt_images)
    except (Unsupported, Mismatch) as reason:
        logger.warning("vlmopt: images of %s go through the stock processor: %s.", architecture, reason)
        return None
    except Exception:
        # Serving must not depend on this check: stock can do without it.
        logger.exception("vlmopt: images of %s go through the stock processor.", architecture)
        return None
    logger.info(
        "vlmopt: images of %s travel as bytes; checked against the stock processor in %.0f ms.",
        architecture,
        1e3 * (time.perf_counter() - start),
    )
    return packer
