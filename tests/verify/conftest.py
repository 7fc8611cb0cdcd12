"""What the tests of faults share."""

from collections.abc import Iterator

import pytest

from tests.verify.faulty import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("faults")) as bench:
        yield bench
