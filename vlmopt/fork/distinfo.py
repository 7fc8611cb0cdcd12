"""The metadata of a fork: that of stock, under the name `vllm` and a version with the local tag `vlmopt`.

vLLM asks for the version of a distribution named `vllm`, and tells its platform by the build named there,
such as `cpu`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vlmopt.sources import InstalledPlugin

_DEFAULT_ENTRY_POINTS = "[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\n"


def fork_version(version: str, build: str) -> str:
    """`0.32.0` and `cpu` give `0.32.0+cpu.vlmopt`."""
    words = [word for word in (build, "vlmopt") if word]
    return version + ("." if "+" in version else "+") + ".".join(words)


def dist_info(version: str, build: str, stock: Mapping[str, str]) -> dict[str, str]:
    """Files of the fork's dist-info folder, by their path in the fork.

    Args:
        version: stock's public version.
        build: its local part, or "".
        stock: stock's own metadata files by name; whatever it lacks is made up for.
    """
    tagged = fork_version(version, build)
    files = dict(stock)
    files["METADATA"] = _metadata(stock.get("METADATA", ""), "vllm", tagged)
    files["INSTALLER"] = "vlmopt\n"
    if "vllm.entrypoints" not in files.get("entry_points.txt", ""):
        files["entry_points.txt"] = _DEFAULT_ENTRY_POINTS
    return {f"vllm-{tagged}.dist-info/{name}": text for name, text in files.items()}


def plugin_info(plugin: InstalledPlugin) -> dict[str, str]:
    """Files of the dist-info folder of a fork's plug-in, by their path in the fork.

    With its entry points, by which vLLM finds it, and a version that says whose it is.
    """
    tagged = fork_version(plugin.version, "")
    files = dict(plugin.metadata())
    files["METADATA"] = _metadata(files.get("METADATA", ""), plugin.distribution, tagged)
    files["INSTALLER"] = "vlmopt\n"
    name = re.sub(r"[-_.]+", "_", plugin.distribution)
    return {f"{name}-{tagged}.dist-info/{path}": text for path, text in files.items()}


def _metadata(text: str, name: str, version: str) -> str:
    header, blank, description = text.partition("\n\n")
    own = {"Name": name, "Version": version}
    if not header.startswith("Metadata-Version:"):
        return "Metadata-Version: 2.1\n" + "".join(f"{key}: {value}\n" for key, value in own.items())
    for key, value in own.items():
        header = re.sub(rf"^{key}:.*$", f"{key}: {value}", header, count=1, flags=re.MULTILINE)
    return header + blank + description
