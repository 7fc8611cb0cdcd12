"""The package that plugs into a fork's vLLM, as it is installed here now."""

from __future__ import annotations

from pathlib import Path

from vlmopt.fork.lock import Fork
from vlmopt.sources import InstalledPlugin, find_plugin


def installed_plugin(fork: Fork) -> InstalledPlugin:
    """What stock would run with, for a fork whose lock names a plug-in.

    Raises:
        SourceError: it is not installed any more.
    """
    plugin = fork.lock.plugin
    assert plugin is not None
    # A copy names no stock that it links to; its plug-in is looked for where it was.
    beside = fork.lock.stock.root or Path(plugin.location).parent
    return find_plugin(
        plugin.package,
        plugin.distribution,
        beside=Path(beside),
        where=f"the fork {fork.path}",
    )
