"""Runs transformers' own processor and model of one model folder, in float32, on a list of prompts.

    python -m vlmopt.engine.third_party JOB ANSWERS      (both pickled: a `Job`, a list of `ThirdPartyAnswer`)

Nothing of vLLM is imported. Whoever reads `ANSWERS` needs no torch.
"""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from vlmopt.engine.jobs import Array, Job, ThirdPartyAnswer
from vlmopt.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image


def main(job_file: str, answer_file: str) -> None:
    """Answers the prompts of a job."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    job: Job = pickle.loads(Path(job_file).read_bytes())
    if job.imports is not None:
        importlib.import_module(job.imports)
    processor = transformers.AutoProcessor.from_pretrained(job.folder)
    model, loaded = getattr(transformers, job.model_class).from_pretrained(
        job.folder, dtype=torch.float32, output_loading_info=True
    )
    if wrong := {what: sorted(names) for what, names in loaded.items() if names}:
        raise RuntimeError(f"the weights are not those of the model: {wrong}")  # else some would be random
    model.eval()
    if not job.whole:
        model.generation_config.eos_token_id = None  # all the tokens that were asked for, whatever they are
    with torch.inference_mode():
        answers = [_answer(job, processor, model, text, images) for text, images in job.prompts]
    Path(answer_file).write_bytes(pickle.dumps(answers, protocol=5))


def _answer(job: Job, processor: Any, model: Any, text: str, images: tuple[Image, ...]) -> ThirdPartyAnswer:
    batch = processor(text=text, images=list(images) or None, return_tensors="pt")
    prompt = batch["input_ids"].shape[1]
    output = model.generate(
        **batch,
        max_new_tokens=job.tokens,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    best = [step[0].float().topk(job.best) for step in output.logits]
    tokens = output.sequences[0, prompt:].tolist()
    text = processor.decode(tokens, skip_special_tokens=True)
    return ThirdPartyAnswer(
        batch["input_ids"][0].tolist(),
        {name: value.numpy() for name, value in batch.items() if name != "input_ids"},
        _embeddings(model, batch) if images else None,
        [list(zip(top.indices.tolist(), top.values.tolist(), strict=True)) for top in best],
        tokens,
        text,
        _boxes(processor, text) if job.whole else None,
    )


def _boxes(processor: Any, text: str) -> list[tuple[str, tuple[float, ...]]] | None:
    """By a processor that has `find_boxes`; None where a box is malformed, or where it has no such method."""
    if not hasattr(processor, "find_boxes"):
        return None
    try:
        return [(found.label, tuple(found.box.corners)) for found in processor.find_boxes(text)]
    except (ValueError, UsageError):
        return None


def _embeddings(model: Any, batch: Any) -> Array:
    takes = inspect.signature(model.get_image_features).parameters
    features = model.get_image_features(**{name: value for name, value in batch.items() if name in takes})
    features = getattr(features, "pooler_output", features)
    rows = features if isinstance(features, list | tuple) else [features]
    joined: Array = torch.cat([row.reshape(-1, row.shape[-1]) for row in rows]).float().numpy()
    return joined


if __name__ == "__main__":
    main(*sys.argv[1:])
