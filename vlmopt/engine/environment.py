"""The environment of a process that runs vLLM: stock's or a fork's, offline, and calm enough to compare."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

import vlmopt
from vlmopt.fork.bytecode import share_bytecode

BYTECODE = Path(tempfile.gettempdir()) / f"vlmopt-bytecode-{os.getuid()}"
_LEFT_OUT = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}


def engine_environment(fork: Path | None, scratch: Path, sockets: Path | None = None) -> dict[str, str]:
    """The environment in which Python imports stock vLLM or, with `fork`, the fork in that folder.

    `scratch` takes what transformers writes (remote code modules), so that two engines never write one file,
    and all temporary files: vLLM leaves some behind. `sockets` takes its sockets, where it is given. What
    torch compiles goes to the user's cache folder. The engine sees one thread, no network and no usage
    statistics. A fork is given stock's bytecode.
    """
    ours = {
        "HF_HUB_OFFLINE": "1",
        "HF_MODULES_CACHE": str(scratch / "modules"),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",  # vLLM hashes embeddings in the order of a set of names
        "PYTHONSAFEPATH": "1",  # the current folder may hold a vllm
    }
    environment = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT} | ours
    environment["TMPDIR"] = str(scratch)
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(user_cache_path("vlmopt") / "torchinductor"))
    if sockets not in (None, scratch):
        environment.setdefault("VLLM_RPC_BASE_PATH", str(sockets))
    if sys.dont_write_bytecode:
        # Compiling torch and vLLM takes ten seconds a process: keep the bytecode, outside the installation.
        environment["PYTHONPYCACHEPREFIX"] = str(BYTECODE)
    if fork is not None:
        # vLLM keeps what it learns of a model class in one file, with its source's hash: side by side, stock
        # and fork would each find the other's, and import all of vLLM once more to learn it again.
        environment["VLLM_CACHE_ROOT"] = str(user_cache_path("vlmopt") / "vllm")
        prefix = environment.get("PYTHONPYCACHEPREFIX")
        share_bytecode(fork.resolve(), Path(prefix) if prefix else None)
    path = [str(fork.resolve())] if fork is not None else []
    home = Path(vlmopt.__file__).parents[1]
    if home.name != "site-packages":  # a checkout that is run without being installed
        path.append(str(home))
    environment["PYTHONPATH"] = os.pathsep.join(path)
    return environment
