"""docs/cli.md names commands and options that exist, and every command that there is."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vlmopt.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
EXAMPLES = re.findall(r"^    vlmopt (.+)$", PAGE, re.MULTILINE)
GROUPS = ("rules", "models", "golden", "argus")


def _command(example: str) -> list[str]:
    words = example.split()
    return words[: 2 if words[0] in GROUPS else 1]


@pytest.mark.parametrize("example", [line for line in EXAMPLES if not line.startswith("--")])
def test_an_example_can_be_typed(example: str) -> None:
    shown = CliRunner().invoke(app, [*_command(example), "--help"])
    assert shown.exit_code == 0
    for option in re.findall(r"(?<= )--[a-z]+", example.partition(" -- ")[0]):
        assert f"{option} " in shown.output


def test_every_command_has_an_example() -> None:
    documented = {" ".join(_command(line)) for line in EXAMPLES}
    for group in ((), *((name,) for name in GROUPS)):
        listed = CliRunner().invoke(app, [*group, "--help"]).output.partition("Commands:")[2]
        for name in re.findall(r"^  (\w+) {2,}", listed, re.MULTILINE):
            assert name in GROUPS or " ".join([*group, name]) in documented
