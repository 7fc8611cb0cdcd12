"""What every test may use."""

import importlib.util
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.models import build_model_folder, model_names

# A shared machine stalls at any moment, so no example has a deadline.
settings.register_profile("vlmopt", deadline=None)
settings.load_profile("vlmopt")

# What a shell starts in the background ignores interrupts, and the programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts what starts vLLMs first, and leaves it out where none is installed.

    Two workers take a file at a time: the long ones must not come last.
    """
    items.sort(key=lambda item: item.get_closest_marker("engine") is None)
    if importlib.util.find_spec("vllm") is None:
        for item in items:
            if item.get_closest_marker("engine"):
                item.add_marker(pytest.mark.skip(reason="needs vLLM: install the engine group"))


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All model folders, ready for a vLLM to load, by name."""
    into = tmp_path_factory.mktemp("models")
    return {name: build_model_folder(name, into) for name in model_names()}
