"""Completes a fork that holds the changed files alone, from an installed vLLM of the same release."""

from __future__ import annotations

import shutil
from dataclasses import replace

from vlmopt.errors import SourceError, UsageError
from vlmopt.fork.distinfo import dist_info
from vlmopt.fork.links import lay_stock
from vlmopt.fork.lock import Fork, LockedStock, sha256
from vlmopt.fork.write import write_text
from vlmopt.sources import find_installed
from vlmopt.sources.local import LOCK_NAME
from vlmopt.treepath import VLLM, package_of


def complete_links(fork: Fork) -> Fork:
    """Links the rest of vLLM into a fork that was made from a release or an archive.

    A whole fork comes back as it is. The lock is written last, so that a killed run can be repeated.

    Raises:
        SourceError: no vLLM of that release is installed, or its files are others than the fork's source has.
        UsageError: the fork's folder cannot be written.
    """
    if fork.lock.stock.complete:
        return fork
    version = fork.lock.vllm["version"]
    wanted = f"the fork {fork.path} holds the changed files of vLLM {version} alone"
    installed = find_installed()
    if installed is None:
        raise SourceError(f"{wanted}, and no vLLM is installed here: install vLLM {version}")
    if installed.version != version:
        raise SourceError(
            f"{wanted}, but vLLM {installed.version} is installed: install {version}, or run `vlmopt apply` "
            "with --vllm installed"
        )
    befores = {
        path: entry["before"]
        for path, entry in fork.lock.files.items()
        if entry["before"] and package_of(path) == VLLM
    }
    for path, before in sorted(befores.items()):
        if not installed.exists(path) or sha256(installed.read(path)) != before:
            raise SourceError(
                f"{installed.root / path} is another file than the fork {fork.path} was made from: "
                "run `vlmopt apply` with --vllm installed"
            )
    watched = {
        path: sha256(installed.read(path)) for path in fork.lock.stock.sha256 if installed.exists(path)
    }
    lock = replace(
        fork.lock,
        vllm={**fork.lock.vllm, "build": installed.build},
        stock=LockedStock(complete=True, root=str(installed.root), sha256=watched),
    )
    try:
        lay_stock(installed.root, fork.path, fork.lock.files.keys())
        for stale in fork.path.glob("vllm-*.dist-info"):
            shutil.rmtree(stale)
        for path, text in dist_info(version, installed.build, installed.metadata()).items():
            write_text(fork.path / path, text)
        unfinished = fork.path / f".{LOCK_NAME}"
        write_text(unfinished, lock.to_json())
        unfinished.replace(fork.path / LOCK_NAME)
    except OSError as error:
        raise UsageError(f"cannot complete the fork {fork.path}: {error.strerror or error}") from None
    return Fork(fork.path, lock)
