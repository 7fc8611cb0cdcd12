from pathlib import Path

import pytest

from tests.fork.cases import make_rules, make_stock
from vlmopt.fork import Fork, write_fork
from vlmopt.plan import Plan

from .cases import install, plan_of


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A small vLLM, installed; nothing plugs into it yet."""
    return make_stock(tmp_path / "env/lib/python3.11/site-packages")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Two rules on the model's file, one of which brings a runtime file, and one on vLLM's."""
    return make_rules(tmp_path / "rules")


@pytest.fixture
def plugin(stock: Path) -> Path:
    """The folder that holds the plug-in's package, installed beside the small vLLM."""
    return install(stock)


@pytest.fixture
def plan(stock: Path, plugin: Path, rules: Path) -> Plan:
    return plan_of(stock, rules)


@pytest.fixture
def fork(plan: Plan, tmp_path: Path) -> Fork:
    return write_fork(plan, tmp_path / "fork", "the report\n")
