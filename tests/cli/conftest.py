"""One fork of the installed vLLM, made by the command line, for all tests that read one."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.models import own_specs
from vlmopt.specs import Spec

from .command import Done, vlmopt


class Applied(NamedTuple):
    """What `vlmopt apply` said, and the fork that it wrote."""

    spec: Spec
    fork: Path
    done: Done


@pytest.fixture(scope="session")
def spec() -> Spec:
    """A spec that comes with vlmopt."""
    return own_specs()[0]


@pytest.fixture(scope="session")
def applied(spec: Spec, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """`vlmopt apply` in an empty folder, with nothing but the model named."""
    here = tmp_path_factory.mktemp("apply")
    done = vlmopt("apply", "--model", spec.name, cwd=here)
    return Applied(spec, here / "build" / spec.name, done)
