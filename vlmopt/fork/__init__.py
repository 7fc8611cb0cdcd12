"""The fork: a folder with a runnable vLLM, its patch series, its lock and its report.

vllm/                    links into stock, with the changed files among them
PACKAGE/                 the same of a package that plugs into vLLM, where the model comes from one
vllm-VERSION.dist-info/  metadata, so that `vllm serve` and version checks work; and the plug-in's
patches/                 one mail per applied rule, for `git am`
vlmopt.lock.json         what it was made of
report.md                what was done, and why
"""

from vlmopt.fork.complete import complete_links
from vlmopt.fork.launch import run
from vlmopt.fork.lock import Fork, Lock, LockedPlugin, LockedRule, LockedStock
from vlmopt.fork.plugin import installed_plugin
from vlmopt.fork.wheel import build_plugin_wheel, build_wheel, wheel_name
from vlmopt.fork.write import write_fork

__all__ = [
    "Fork",
    "Lock",
    "LockedPlugin",
    "LockedRule",
    "LockedStock",
    "build_plugin_wheel",
    "build_wheel",
    "complete_links",
    "installed_plugin",
    "run",
    "wheel_name",
    "write_fork",
]
