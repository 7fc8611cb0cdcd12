"""The implementations, asked for the outputs of the same cases: a third party, and vLLM, stock or a fork."""

from __future__ import annotations

import importlib.metadata
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlmopt.engine.module import run_module
from vlmopt.errors import UsageError, VlmoptError
from vlmopt.golden.cases import Case
from vlmopt.golden.outputs import Output as CaseOutput
from vlmopt.golden.outputs import Summary, runs, summarize
from vlmopt.small import small_of, third_party_folder
from vlmopt.specs import Output, Spec

if TYPE_CHECKING:
    import numpy as np

    from vlmopt.engine.protocol import Outcome, Tensor

    Array = np.ndarray[Any, Any]

BEST = 5
VERSIONS = ("transformers", "torch", "torchvision", "pillow", "numpy")
# In vLLM alone: the third party's tensors are cut into images by their shape.
_HOST_ONLY = {Output.tile_count}


class ThirdPartyError(VlmoptError):
    """transformers cannot load the small model folder or answer a case."""


def versions() -> dict[str, str]:
    """What the third party's outputs are made with."""
    return {name: importlib.metadata.version(name) for name in VERSIONS}


def ask_third_party(spec: Spec, folder: Path, cases: Sequence[Case]) -> dict[str, CaseOutput]:
    """What transformers' own processor and model give, in float32. `folder` is of `build_small_model`.

    Raises:
        ThirdPartyError: with the last line of what it wrote.
    """
    from vlmopt.engine.jobs import Job

    third_party, golden = small_of(spec).third_party, small_of(spec).golden
    prompts = [(case.third_party_prompt, case.images) for case in cases]
    own = third_party_folder(spec, folder)
    with tempfile.TemporaryDirectory(prefix="third-party-") as scratch:
        job, answers = Path(scratch) / "job", Path(scratch) / "answers"
        asked = Job(
            str(own), third_party.model, prompts, golden.tokens, BEST, golden.whole, third_party.imports
        )
        job.write_bytes(pickle.dumps(asked))
        failure = run_module("vlmopt.engine.third_party", str(job), str(answers))
        if failure is not None:
            raise ThirdPartyError(f"{spec.name}: transformers cannot answer the golden cases: {failure}")
        given = pickle.loads(answers.read_bytes())
    names = third_party.outputs or spec.images.outputs
    return {
        case.name: CaseOutput(
            token_ids=runs(answer.token_ids),
            inputs=_by_kind({name: [value] for name, value in answer.tensors.items()}, names),
            embeddings=None if answer.embeddings is None else summarize(answer.embeddings),
            logits=tuple(tuple(step) for step in answer.logits),
            tokens=tuple(answer.tokens),
            text=answer.text if golden.whole else None,
            boxes=None if answer.boxes is None else tuple(answer.boxes),
        )
        for case, answer in zip(cases, given, strict=True)
    }


def ask_vllm(
    spec: Spec, folder: Path, cases: Sequence[Case], fork: Path | None
) -> tuple[dict[str, CaseOutput], str]:
    """What stock vLLM or a fork gives, in float32, one case at a time; and vLLM's version.

    Raises:
        VlmoptError: the engine does not start, or refuses a case.
    """
    from vlmopt.engine.protocol import Request
    from vlmopt.engine.worker import ENGINE, Worker

    outputs, golden = {}, small_of(spec).golden
    with Worker(fork, child=ENGINE) as worker:
        version = worker.hello().version
        worker.load(
            folder,
            trust_remote_code=small_of(spec).trust_remote_code,
            dtype="float32",
            logprobs_mode="raw_logits",
        )
        for case in cases:
            request = Request(case.prompt, case.images)
            outcome = worker.process(request, data=True, embed=True)
            answered = worker.generate(request, tokens=golden.tokens, until_end=golden.whole)
            (answer,) = answered.answers
            error = outcome.error or outcome.prompts[0].error or answer.error
            if error is not None:
                raise UsageError(f"{spec.name}: vLLM refuses the golden case {case.name}: {error.message}")
            outputs[case.name] = CaseOutput(
                token_ids=runs(answer.prompt),
                inputs=_by_kind(_batched(outcome), spec.images.outputs),
                embeddings=_embeddings(outcome),
                logits=tuple(step[:BEST] for step in answer.logprobs),
                tokens=answer.tokens,
                text=answer.text if golden.whole else None,
            )
    return outputs, version


def _by_kind(tensors: Mapping[str, list[Array]], names: Mapping[str, Output]) -> dict[str, Summary]:
    return {
        kind.value: summarize(_joined(tensors[name]))
        for name, kind in names.items()
        if name in tensors and kind not in _HOST_ONLY
    }


def _batched(outcome: Outcome) -> dict[str, list[Array]]:
    """The tensors of all batches by name; the entries of a list (`name[0]`, ...) one after the other."""
    out: dict[str, list[Array]] = {}
    for batch in outcome.batches:
        for name, tensor in batch.tensors.items():
            out.setdefault(name.partition("[")[0], []).append(_array(tensor))
    return out


def _embeddings(outcome: Outcome) -> Summary | None:
    parts = [_array(each) for batch in outcome.batches for each in batch.embeddings]
    return summarize(_joined([part.reshape(-1, part.shape[-1]) for part in parts])) if parts else None


def _array(tensor: Tensor) -> Array:
    from vlmopt.verify.compare import numbers

    return numbers(tensor).reshape(tensor.shape)


def _joined(parts: Sequence[Array]) -> Array:
    import numpy as np

    return parts[0] if len(parts) == 1 else np.concatenate(list(parts))
