"""Holds the third party, stock vLLM and a fork against the golden outputs of a model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vlmopt.compiler import BUILD_FOLDER, compile_model
from vlmopt.console import Tick
from vlmopt.errors import EquivalenceError, UsageError
from vlmopt.fork import Fork
from vlmopt.golden.cases import Case, cases_of
from vlmopt.golden.files import Golden, read_golden
from vlmopt.golden.outputs import Output, Stage, distance, within
from vlmopt.golden.parties import ask_third_party, ask_vllm, versions
from vlmopt.golden.record import golden_specs, weights_digest
from vlmopt.small import WEIGHTS, build_small_model
from vlmopt.sources.local import LOCK_NAME
from vlmopt.specs import Spec
from vlmopt.verify.subject import open_subject


class Party(StrEnum):
    """Who is held against the golden outputs."""

    third_party = "third party"
    stock = "stock"
    fork = "fork"


@dataclass(frozen=True)
class Row:
    """One stage by one party: how far it is from what the third party gave when that was recorded.

    `distance` is the largest over the cases in which stock agrees with the third party, found in `case`; None
    where all are equal in every bit. `known` is the largest over the cases for which a difference of stock is
    recorded. `breaches` names the cases in which the party is not what it must be.
    """

    stage: Stage
    party: Party
    distance: float | None
    case: str | None
    known: float | None
    breaches: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """What became of one model's golden outputs. `fork` is None for one that was made for the check.

    `outputs` is what each party gave, by case.
    """

    golden: Golden
    fork: Path | None
    versions: Mapping[str, str]
    outputs: Mapping[Party, Mapping[str, Output]]
    rows: Sequence[Row]

    @property
    def holds(self) -> bool:
        """Whether everybody gives what was recorded."""
        return not any(row.breaches for row in self.rows)


def check(spec: Spec, folder: Path, fork: Path | None, *, progress: Tick) -> Checked:
    """Runs the third party, stock and a fork, and compares each with what is recorded in `folder`.

    Without `fork` it is `build/NAME`, or where that is no fork one that is made for the check.

    Raises:
        EquivalenceError: the recorded file was changed, or was made of other weights, pictures or prompts.
        UsageError: nothing is recorded.
    """
    golden = read_golden(folder, spec.name)
    if fork is None and (BUILD_FOLDER / spec.name / LOCK_NAME).is_file():
        fork = BUILD_FOLDER / spec.name
    with tempfile.TemporaryDirectory(prefix="vlmopt-golden-") as scratch:
        progress(f"{spec.name}: the fork", 0, 4)
        if fork is None:
            _, made = compile_model(str(spec.path), source="installed", out=Path(scratch) / spec.name)
        else:
            made = _open(fork, spec)
        model = build_small_model(spec)
        cases = cases_of(spec, folder)
        check_inputs(golden, cases, weights_digest(model))
        progress(f"{spec.name}: the third party", 1, 4)
        outputs = {Party.third_party: ask_third_party(spec, model, cases)}
        progress(f"{spec.name}: stock", 2, 4)
        outputs[Party.stock], vllm = ask_vllm(spec, model, cases, None)
        progress(f"{spec.name}: the fork", 3, 4)
        outputs[Party.fork], _ = ask_vllm(spec, model, cases, made.path)
    return Checked(golden, fork, versions() | {"vllm": vllm}, outputs, compare(golden, outputs))


def check_all(model: str | None, folder: Path, fork: Path | None, *, progress: Tick) -> list[Checked]:
    """Checks one model, the one that `fork` is for, or all that have golden outputs.

    Raises:
        VlmoptError: as `check` does.
    """
    if model is None and fork is not None:
        model = Fork.open(fork).lock.spec["name"]
    return [check(spec, folder, fork, progress=progress) for spec in golden_specs(model)]


def compare(golden: Golden, outputs: Mapping[Party, Mapping[str, Output]]) -> list[Row]:
    """Compares the outputs of all parties, by case, with the golden ones.

    The third party must give what is recorded, stock what is recorded for it, both within `TOLERANCE`; the
    fork must give what stock gives, in every bit.
    """
    whole = any(case.third_party.text is not None for case in golden.cases.values())
    stages = [stage for stage in Stage if whole or stage is not Stage.answer]
    return [_row(golden, outputs, stage, party) for stage in stages for party in Party]


def _row(golden: Golden, outputs: Mapping[Party, Mapping[str, Output]], stage: Stage, party: Party) -> Row:
    far = {
        name: distance(stage, case.third_party, outputs[party][name]) for name, case in golden.cases.items()
    }
    known = [
        name for name, case in golden.cases.items() if party is not Party.third_party and stage in case.apart
    ]
    apart = [name for name in far if name not in known and not far[name].equal]
    worst = max(apart, key=lambda name: far[name].value, default=None)
    return Row(
        stage,
        party,
        None if worst is None else far[worst].value,
        worst,
        max((far[name].value for name in known), default=None),
        tuple(name for name in golden.cases if not _is_right(golden, outputs, stage, party, name)),
    )


def _is_right(
    golden: Golden, outputs: Mapping[Party, Mapping[str, Output]], stage: Stage, party: Party, name: str
) -> bool:
    case, given = golden.cases[name], outputs[party][name]
    if party is Party.fork:
        return distance(stage, outputs[Party.stock][name], given).equal
    expected = case.third_party if party is Party.third_party else case.stock or case.third_party
    return within(stage, distance(stage, expected, given))


def _open(folder: Path, spec: Spec) -> Fork:
    fork = open_subject(folder, None).fork
    if fork.lock.spec["name"] != spec.name:
        raise UsageError(f"{folder} is a fork for {fork.lock.spec['name']}, not for {spec.name}")
    return fork


def check_inputs(golden: Golden, cases: Sequence[Case], weights: str) -> None:
    """Raises EquivalenceError where weights, prompts or pictures are not those that the outputs belong to."""
    again = f"record it anew with `vlmopt golden record --model {golden.model} --force`"
    if golden.weights.get(WEIGHTS) != weights:
        raise EquivalenceError(
            f"{golden.model}: the weights of the small model folder are not those of the golden outputs: "
            f"the spec or numpy has changed; {again}"
        )
    if golden.cases.keys() != {case.name for case in cases}:
        raise EquivalenceError(f"{golden.model}: other cases are asked than are recorded; {again}")
    for case in cases:
        known = golden.cases[case.name]
        if (known.prompt, known.pictures) != (case.prompt, case.digests()):
            raise EquivalenceError(
                f"{golden.model}: case {case.name} has another prompt or other pixels than were recorded "
                f"(another JPEG decoder gives other pixels); {again}"
            )
