"""Compiled kernels are kept where every fork with the same runtime finds them, for no fork to compile them
anew.

numba keeps what it compiles beside the source, by its path and time, so that each fork would compile for
itself. Here the folder is named by what the code depends on: the source's bytes and those of the files that
its module names in KERNEL_SOURCES, the module's name, which compiled code refers to, and the versions of
numba and LLVM. Python's version and the processor's features are in numba's own names and keys. It lies under
numba's own folder where one is told (``NUMBA_CACHE_DIR``), else under the one that vLLM keeps its caches in
(``VLLM_CACHE_ROOT``), and nothing is written anywhere else. Where it cannot be written kernels are compiled
and not kept; where it cannot be read, or holds what is damaged, they are compiled.

Whoever tells numba how to find kernels (``NUMBA_CACHE_LOCATOR_CLASSES``) is left to it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)

FOLDER = "vlmopt-kernels"


def keep_on_disk(dispatcher: Any) -> Any:
    """Makes a dispatcher that has compiled nothing yet look for its code on disk, and leave it there."""
    try:
        if getattr(config, "CACHE_LOCATOR_CLASSES", ""):
            dispatcher.enable_caching()
        else:
            dispatcher._cache = _Cache(dispatcher.py_func)
    except Exception:  # numba finds no folder, or has other insides by now; kernels work without a cache
        return dispatcher
    return dispatcher


def cache_root() -> Path:
    """The folder in which vLLM keeps its caches."""
    root = os.environ.get("VLLM_CACHE_ROOT")
    if root:
        return Path(root).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "vllm"


class _Locator(_CacheLocator):
    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file
        self._line = function.__code__.co_firstlineno
        versions = f"{function.__module__} {numba.__version__} {llvmlite.__version__}\n"
        sources = [file, *function.__globals__.get("KERNEL_SOURCES", ())]
        code = b"".join(Path(source).read_bytes() for source in sources)
        self._digest = hashlib.sha256(versions.encode() + code).hexdigest()

    def ensure_cache_path(self) -> None:
        with suppress(OSError):
            os.makedirs(self.get_cache_path(), mode=0o700, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(Path(config.CACHE_DIR or cache_root(), FOLDER, self._digest[:32]))

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _Kept(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Files(IndexDataCacheFile):
    """An index and its files, which processes may write at once, and which may be anything by now.

    numba counts its files: two processes that begin with one index would give one name to two codes. Here a
    name comes from the key. The later index wins; what it lacks is compiled again, and then is in it.
    """

    def save(self, key: Any, data: Any) -> None:
        name = f"{self._index_name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.nbc"
        with suppress(OSError):
            self._save_data(name, data)
            self._save_index({**self._load_index(), key: name})

    def load(self, key: Any) -> Any:
        with suppress(Exception):
            return super().load(key)
        return None

    def _load_index(self) -> dict[Any, str]:
        with suppress(Exception):
            index: dict[Any, str] = super()._load_index()
            return index
        return {}


class _Cache(FunctionCache):
    _impl_class = _Kept

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _Files(
            cache_path=locator.get_cache_path(),
            filename_base=self._impl.filename_base,
            source_stamp=locator.get_source_stamp(),
        )
