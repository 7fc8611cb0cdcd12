"""What is verified or measured: a fork, ready to run beside the stock it came from, and the model of both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vlmopt.errors import SourceError, UsageError
from vlmopt.fork import Fork, complete_links, installed_plugin
from vlmopt.runtime.guard import problem
from vlmopt.small import build_small_model, requests_of, small_of, write_small_folder
from vlmopt.sources import find_installed
from vlmopt.specs import Spec, load_spec
from vlmopt.verify.parts import Model
from vlmopt.verify.promise import Promise, promise_of


@dataclass(frozen=True)
class Subject:
    """A fork, what it promises, and its model's spec."""

    fork: Fork
    promise: Promise
    spec: Spec

    @property
    def vllm(self) -> str:
        """Stock's version."""
        return self.fork.lock.vllm["version"]


def open_subject(folder: Path, model: str | None) -> Subject:
    """Opens a fork to run it beside its stock; `model` names a spec, None the one of the fork's lock.

    Raises:
        VlmoptError: the folder is no fork, its stock is not installed here, or the spec says too little.
    """
    fork = Fork.open(folder)
    spec = load_spec(model or fork.lock.spec["name"])
    requests_of(spec)
    installed = find_installed()
    version = fork.lock.vllm["version"]
    if installed is None:
        raise SourceError(
            f"stock vLLM runs beside the fork, and none is installed here: install vLLM {version}"
        )
    if installed.version != version:
        raise SourceError(
            f"{fork.path} is a fork of vLLM {version}, but {installed.version} is installed: "
            f"install {version}, or run `vlmopt apply` with --vllm installed"
        )
    fork = complete_links(fork)
    root = fork.lock.stock.root
    if root is not None and Path(root).resolve() != installed.root.resolve():
        raise SourceError(
            f"{fork.path} links to the vLLM in {root}, but Python imports the one in {installed.root}: "
            "run `vlmopt apply` with --vllm installed"
        )
    _check_plugin(fork)
    trouble = problem(str(fork.path))
    if trouble is not None:
        raise SourceError(trouble)
    return Subject(fork, promise_of(fork), spec)


def _check_plugin(fork: Fork) -> None:
    """Raises SourceError when stock would run with another plug-in than the fork was made from."""
    plugin = fork.lock.plugin
    if plugin is None:
        return
    installed = installed_plugin(fork)
    same = plugin.root is None or Path(plugin.root).resolve() == installed.root.resolve()
    if installed.version != plugin.version or not same:
        raise SourceError(
            f"{fork.path} was made with {plugin.words}, but Python imports {installed.words}: "
            "run `vlmopt apply` again"
        )


@contextmanager
def model_of(spec: Spec, folder: Path | None, *, weights: bool) -> Iterator[Model]:
    """The model to load: the one in `folder`, or the spec's small one, without weights unless asked for.

    Raises:
        UsageError: `folder` is no model folder.
        SpecError: the spec describes no small folder.
    """
    requests = requests_of(spec)
    trust = spec.small is not None and spec.small.trust_remote_code
    if folder is not None:
        if not (folder / "config.json").is_file():
            raise UsageError(f"{folder} is no model folder: it has no config.json")
        yield Model(folder.resolve(), requests, trust)
        return
    small_of(spec)
    with tempfile.TemporaryDirectory(prefix="vlmopt-verify-") as scratch:
        made = build_small_model(spec) if weights else write_small_folder(spec, Path(scratch))
        yield Model(made, requests, trust)
