"""The fork: a folder with a runnable vLLM, its patch series, its lock and its report.

vllm/                    links into stock, with the changed files among them
vllm-VERSION.dist-info/  metadata, so that `vllm serve` and version checks work
patches/                 one mail per applied rule, for `git am`
vlmopt.lock.json         what it was made of
report.md                what was done, and why
"""

from vlmopt.fork.complete import complete_links
from vlmopt.fork.launch import run
from vlmopt.fork.lock import Fork, Lock, LockedRule, LockedStock
from vlmopt.fork.wheel import build_wheel, wheel_name
from vlmopt.fork.write import write_fork

__all__ = [
    "Fork",
    "Lock",
    "LockedRule",
    "LockedStock",
    "build_wheel",
    "complete_links",
    "run",
    "wheel_name",
    "write_fork",
]
