"""The small model folder of a spec: what a real vLLM loads of a hub folder, at the size of a test.

Image geometry, preprocessor settings, placeholders and tokenizer are the real model's; the towers are shrunk
to one layer or two, so that an engine starts and answers fast and what is left is the work of the host.
"""

from __future__ import annotations

import lzma
from pathlib import Path

from vlmopt.errors import SpecError
from vlmopt.specs import Requests, Small, Spec


def requests_of(spec: Spec) -> Requests:
    """How requests to the model look. Raises SpecError when the spec does not say."""
    if spec.requests is None:
        raise SpecError(f"{spec.where()}: no `requests`: say what a prompt of this model looks like")
    return spec.requests


def small_of(spec: Spec) -> Small:
    """The small model folder's facts. Raises SpecError when the spec has none."""
    if spec.small is None or spec.path is None:
        raise SpecError(f"{spec.where()}: no `small`: name a model folder with --folder, or describe one")
    return spec.small


def write_small_folder(spec: Spec, into: Path) -> Path:
    """Writes the small model folder of `spec` as `into/NAME`, without weights, and returns it.

    A hub folder's own Python files are kept as ``NAME.py.txt``: they are the model's data, not our code.

    Raises:
        SpecError: the spec describes no small folder, or names files that are not there.
    """
    small = small_of(spec)
    assert spec.path is not None
    folder = into / spec.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for path in sorted((spec.path.parent / small.files).iterdir()):
            if path.is_file():
                (folder / path.name.removesuffix(".txt")).write_bytes(path.read_bytes())
        packed = (spec.path.parent / small.tokenizer).read_bytes()
        (folder / "tokenizer.json").write_bytes(lzma.decompress(packed))
    except (OSError, lzma.LZMAError) as error:
        raise SpecError(f"{spec.where('small')}: cannot build the small model folder: {error}") from None
    return folder
