"""The fork that an evaluation asks: one in a folder, or one compiled for it."""

from __future__ import annotations

from pathlib import Path

from vlmopt.argus.errors import InputError
from vlmopt.argus.training.folder import record_of
from vlmopt.compiler import compile_model
from vlmopt.verify.subject import open_subject


def open_fork(folder: Path) -> Path:
    """The fork in a folder, ready to run beside the installed stock.

    Raises:
        VlmoptError: it is no fork, or one of another vLLM than is installed.
    """
    return open_subject(folder, None).fork.path


def compile_fork(checkpoint: Path, out: Path) -> Path:
    """Compiles the fork of the installed vLLM for the member that `checkpoint` is a trained one of.

    Raises:
        InputError: the checkpoint does not say which member it is.
        VlmoptError: there is no spec of that name, or a recipe has drifted.
    """
    try:
        member = (record_of(checkpoint) or {})["options"]["member"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"the training record in {checkpoint} does not say which model this is: make a fork with "
            "`vlmopt apply`, and give its folder"
        ) from error
    _, fork = compile_model(member, source="installed", out=out)
    return open_fork(fork.path)
