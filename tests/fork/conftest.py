from pathlib import Path

import pytest

from vlmopt.plan import Plan

from .cases import make_plan_of, make_rules, make_stock


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A small vLLM, installed."""
    return make_stock(tmp_path / "env/lib/python3.11/site-packages")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Rules for the small vLLM."""
    return make_rules(tmp_path / "rules")


@pytest.fixture
def plan(stock: Path, rules: Path) -> Plan:
    """A plan of three applied rules and a skipped one."""
    return make_plan_of(stock, rules)
