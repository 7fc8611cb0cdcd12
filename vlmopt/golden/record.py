"""Makes the golden outputs of a model: what the third party gives, and where stock vLLM differs from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from vlmopt.console import Tick
from vlmopt.errors import EquivalenceError
from vlmopt.golden.cases import Case, cases_of
from vlmopt.golden.files import Golden, GoldenCase, write_golden
from vlmopt.golden.outputs import Output, Stage, distance, within
from vlmopt.golden.parties import ask_third_party, ask_vllm, versions
from vlmopt.small import WEIGHTS, build_small_model, small_of
from vlmopt.specs import Spec, list_specs, load_spec


def record(spec: Spec, folder: Path, *, force: bool, progress: Tick) -> str:
    """Records the golden outputs of a model in `folder`; `new`, `unchanged` or `replaced`.

    Raises:
        EquivalenceError: other outputs are recorded already, or stock differs and the spec does not say why.
    """
    progress(f"{spec.name}: weights", 0, 3)
    made = build_small_model(spec)
    cases = cases_of(spec, folder)
    progress(f"{spec.name}: the third party", 1, 3)
    third_party = ask_third_party(spec, made, cases)
    progress(f"{spec.name}: stock", 2, 3)
    stock, vllm = ask_vllm(spec, made, cases, None)
    golden = make_golden(spec, weights_digest(made), cases, third_party, stock, vllm)
    return write_golden(folder, golden, force=force)


def golden_specs(model: str | None) -> list[Spec]:
    """The spec that `model` means; for None all that describe a small model folder."""
    return [load_spec(model)] if model is not None else [spec for spec in list_specs() if spec.small]


def record_all(model: str | None, folder: Path, *, force: bool, progress: Tick) -> dict[str, str]:
    """Records one model or all; what became of each file by model."""
    return {spec.name: record(spec, folder, force=force, progress=progress) for spec in golden_specs(model)}


def make_golden(
    spec: Spec,
    weights: str,
    cases: Sequence[Case],
    third_party: Mapping[str, Output],
    stock: Mapping[str, Output],
    vllm: str,
) -> Golden:
    """The golden outputs, from what the third party and stock gave.

    Raises:
        EquivalenceError: stock differs at a stage, and the spec does not say why.
    """
    out: dict[str, GoldenCase] = {}
    for case in cases:
        theirs, ours = third_party[case.name], stock[case.name]
        found = {stage: distance(stage, theirs, ours) for stage in Stage}
        apart = {stage: float(f"{far.value:.3g}") for stage, far in found.items() if not within(stage, far)}
        out[case.name] = GoldenCase(
            prompt=case.prompt,
            pictures=case.digests(),
            third_party=theirs,
            stock=ours if apart else None,
            apart=apart,
            why=_reason(spec, case.name, apart) if apart else None,
        )
    return Golden(
        model=spec.name,
        versions=versions(),
        vllm=vllm,
        seed=small_of(spec).weights.seed,
        weights={WEIGHTS: weights},
        cases=out,
    )


def weights_digest(folder: Path) -> str:
    """The SHA-256 of the weights in a folder of `build_small_model`."""
    with (folder / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(spec: Spec, case: str, apart: Mapping[Stage, float]) -> str:
    stage, far = next(iter(apart.items()))
    for each in small_of(spec).third_party.differs:
        if each.stage == stage and (each.cases is None or case in each.cases):
            return each.why
    raise EquivalenceError(
        f"{spec.name}: case {case}: stock differs from transformers from the {stage} on, by {far:g}: "
        "find out why, and say it in the spec under small.third_party.differs"
    )
