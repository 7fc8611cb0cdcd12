"""The small model folder of a spec: what a real vLLM loads of a hub folder, at the size of a test.

Image geometry, preprocessor settings, placeholders and tokenizer are the real model's; the towers are shrunk
to one layer or two, so that an engine starts and answers fast and what is left is the work of the host.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import lzma
import shutil
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from vlmopt import needs
from vlmopt.engine.module import run_module
from vlmopt.errors import SpecError, UsageError
from vlmopt.sources import find_plugin
from vlmopt.specs import AddedToken, Requests, Small, Spec

THIRD_PARTY = "third_party"
WEIGHTS = "model.safetensors"
STAMP = "vlmopt-small.json"
_MAKER = "vlmopt.engine.weights"
_MADE_WITH = ("transformers", "numpy", "safetensors")


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

    A hub folder's own Python files are kept as ``NAME.py.txt``: they are the model's data, not our code. A
    checkpoint that ships with the model is copied as it is, with its weights.

    Raises:
        SpecError: the spec describes no small folder, or names files that are not there.
    """
    folder = into / spec.name
    small = small_of(spec)
    if small.checkpoint is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in _checkpoint(spec, small.checkpoint).iterdir():
            shutil.copyfile(path, folder / path.name)
        return folder
    assert small.files is not None
    _write_files(spec, small.files, folder)
    return folder


def build_small_model(spec: Spec, into: Path | None = None) -> Path:
    """The small model folder of `spec` with its seeded weights, as `into/NAME`, made once.

    vLLM loads it the ordinary way (``load_format="auto"``), and so does transformers, from the folder that
    `third_party_folder` gives. Without `into` it stands in the user's cache. A folder that was made from
    other files, seeds or versions is made anew. It is there whole, or not at all. A checkpoint that ships
    with the model is taken from where it lies; with `into` it is copied there.

    Raises:
        SpecError: the spec describes no small folder, or one that transformers cannot make.
        UsageError: transformers is not installed, or `into/NAME` is something else.
    """
    checkpoint = small_of(spec).checkpoint
    if checkpoint is not None and into is None:
        return _checkpoint(spec, checkpoint)
    if checkpoint is None:
        needs.check("making weights", ("transformers", "torch"), "engine")
    key = _key(spec)
    folder = (into or _cache(key)).resolve() / spec.name
    if _is_made_of(folder, key):
        return folder
    if folder.exists() and not (folder / STAMP).is_file() and any(folder.iterdir()):
        raise UsageError(f"{folder} is no folder that vlmopt made: name another place, or remove it first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{spec.name}-") as scratch:
        made = write_small_folder(spec, Path(scratch))
        if checkpoint is None:
            _make_weights(spec, made)
        (made / STAMP).write_text(json.dumps(key, indent=2) + "\n", "utf-8")
        try:
            if folder.exists():
                folder.rename(Path(scratch) / "previous")
            made.rename(folder)
        except OSError:
            if not _is_made_of(folder, key):  # else another process was faster
                raise
    return folder


def third_party_folder(spec: Spec, folder: Path) -> Path:
    """Where transformers' own implementation loads the model from, in a folder of `build_small_model`."""
    return folder / THIRD_PARTY if small_of(spec).third_party.files else folder


def _write_files(spec: Spec, files: str, folder: Path) -> None:
    assert spec.path is not None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for path in sorted((spec.path.parent / files).iterdir()):
            if path.is_file():
                (folder / path.name.removesuffix(".txt")).write_bytes(path.read_bytes())
        tokenizer = lzma.decompress(_packed_tokenizer(spec).read_bytes())
        added = small_of(spec).adds
        (folder / "tokenizer.json").write_bytes(_with_tokens(tokenizer, added) if added else tokenizer)
    except (OSError, ValueError, KeyError, lzma.LZMAError) as error:
        raise SpecError(f"{spec.where('small')}: cannot build the small model folder: {error}") from None


def _packed_tokenizer(spec: Spec) -> Path:
    named = small_of(spec).tokenizer
    assert spec.path is not None
    assert named is not None
    return spec.path.parent / named


def _with_tokens(tokenizer: bytes, added: Sequence[AddedToken]) -> bytes:
    """A tokenizer.json with more tokens, as tokenizers adds them: one that is there keeps its number."""
    content = json.loads(tokenizer)
    entries = {each["content"]: each for each in content["added_tokens"]}
    ids = dict(content["model"]["vocab"]) | {text: each["id"] for text, each in entries.items()}
    for each in added:
        for text in each.texts:
            ids.setdefault(text, len(ids))
            entries[text] = {
                "id": ids[text],
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": each.special,
            }
    content["added_tokens"] = sorted(entries.values(), key=lambda entry: entry["id"])
    return json.dumps(content, ensure_ascii=False).encode()


def _checkpoint(spec: Spec, path: str) -> Path:
    """The folder of a checkpoint that ships with the model's own package."""
    assert spec.plugin is not None
    where = spec.where("small", "checkpoint")
    plugin = find_plugin(spec.plugin.package, spec.plugin.installed_as, beside=None, where=where)
    folder = plugin.root / path
    if not (folder / "config.json").is_file():
        raise SpecError(f"{where}: {plugin.words} has no checkpoint in {path}")
    return folder


def _make_weights(spec: Spec, folder: Path) -> None:
    small = small_of(spec)
    own = third_party_folder(spec, folder)
    if small.third_party.files:
        _write_files(spec, small.third_party.files, own)
    plan = {
        "folder": str(own),
        "model_class": small.third_party.model,
        "out": str(folder / WEIGHTS),
        "own_out": str(own / WEIGHTS) if own != folder else None,
        "seed": small.weights.seed,
        "gains": [(gain.names, gain.factor) for gain in small.weights.gains],
        "imports": small.third_party.imports,
        "names": [(renaming.from_, renaming.to) for renaming in small.third_party.names],
    }
    failure = run_module(_MAKER, json.dumps(plan))
    if failure is not None:
        raise SpecError(f"{spec.where('small')}: cannot make weights for the small model folder: {failure}")


def _key(spec: Spec) -> dict[str, str]:
    """What decides every byte of the folder."""
    small = small_of(spec)
    if small.checkpoint is not None:
        files = sorted(_checkpoint(spec, small.checkpoint).iterdir())
        return {"spec": spec.name, "sha256": _digest(files, hashlib.sha256())}
    assert spec.path is not None
    home = spec.path.parent
    facts = small.model_dump(
        mode="json",
        include={"weights": True, "adds": True, "third_party": {"model", "imports", "files", "names"}},
    )
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    folders = [home / named for named in (small.files, small.third_party.files) if named]
    maker = importlib.util.find_spec(_MAKER)
    assert maker is not None
    assert maker.origin is not None
    try:
        files = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
        found = _digest([*files, _packed_tokenizer(spec), Path(maker.origin)], digest)
    except OSError as error:
        raise SpecError(f"{spec.where('small')}: cannot build the small model folder: {error}") from None
    return {"spec": spec.name, "sha256": found} | {name: version(name) for name in _MADE_WITH}


def _digest(files: Sequence[Path], digest: hashlib._Hash) -> str:
    """In hex: of names and bytes, after what `digest` has taken already."""
    for path in files:
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _is_made_of(folder: Path, key: dict[str, str]) -> bool:
    try:
        return bool(json.loads((folder / STAMP).read_text("utf-8")) == key)
    except (OSError, ValueError):
        return False


def _cache(key: dict[str, str]) -> Path:
    from platformdirs import user_cache_path

    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return user_cache_path("vlmopt") / "small" / digest[:16]
