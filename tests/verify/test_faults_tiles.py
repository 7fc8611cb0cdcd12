"""Faults in forks of models that cut pictures into tiles: verify fails on each, with a small example."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import Done, arguments, environment
from tests.verify.faulty import FAULTS, WITHOUT_SELF_CHECK, Bench, Fault, check, faults_of
from vlmopt.verify.compare import differences
from vlmopt.verify.images import ImageCase
from vlmopt.verify.requests import RequestCase

MINE = faults_of("tile-grid", "split-global")
CAUGHT = next(fault for fault in MINE if fault.self_check == "catches")

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({fault.model for fault in MINE if fault.self_check == "catches"}))
def test_a_fork_without_its_self_check_is_equal(name: str, bench: Bench) -> None:
    assert bench.verify(name, WITHOUT_SELF_CHECK, examples=20) is None


@pytest.mark.parametrize("fault", MINE, ids=lambda fault: fault.id)
def test_verify_finds_the_fault(fault: Fault, bench: Bench) -> None:
    check(fault, bench)


def test_the_self_check_keeps_a_fault_from_outputs(bench: Bench) -> None:
    case = (RequestCase((ImageCase(640, 480), ImageCase(100, 300)), ("", "")),)
    stock, fork = bench.both(CAUGHT.model, [], case)
    assert differences(stock, fork) == []
    assert fork.prompts[0].sent < stock.prompts[0].sent
    stock, fork = bench.both(CAUGHT.model, [CAUGHT], case)
    assert differences(stock, fork) == []
    assert fork.prompts[0].sent == stock.prompts[0].sent, "the stock processor must do the work"


@pytest.mark.long
def test_the_command_names_the_rule_and_keeps_the_case(bench: Bench) -> None:
    fault = next(fault for fault in FAULTS if fault.id == "mask-of-zeros")

    def verify(*words: str | Path) -> Done:
        command = arguments("verify", fork, "--json", *words)
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    with bench.faulty(fault.model, fault.edits) as fork:
        code, out, err = verify("--examples", "40")
        assert code == 1, err
        failure = json.loads(out)["failure"]
        assert failure["stable"]
        assert failure["culprit"].startswith(f"{fault.rule} ")
        assert failure["breaches"][0].startswith(fault.stage)
        case = Path(failure["folder"])
        assert (case / "case.json").is_file()
        assert list(case.glob("request-1-image-1.*"))
        assert verify("--replay", case).code == 1
    done = verify("--replay", case)
    assert done.code == 0, done.err
