"""Writes a fork from a plan."""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vlmopt.errors import DriftError, UsageError
from vlmopt.folders import runtime_folder
from vlmopt.fork.distinfo import dist_info, plugin_info
from vlmopt.fork.links import FILE_MODE, lay_stock, make_folder
from vlmopt.fork.lock import Fork, Lock, LockedPlugin, LockedRule, LockedStock, own_version, sha256
from vlmopt.fork.patches import patch_files
from vlmopt.fork.staging import replacing
from vlmopt.runtime.guard import modules
from vlmopt.sources import Progress
from vlmopt.sources.local import LOCK_NAME
from vlmopt.treepath import VLLM, package_of

if TYPE_CHECKING:
    from vlmopt.plan import Plan

_PACKAGE_FILE = "vllm/__init__.py"
_VERSION_FILES = ("vllm/_version.py", "vllm/version.py")
_GUARD_FILES = ("vllm/vlmopt_runtime/__init__.py", "vllm/vlmopt_runtime/guard.py")
_GUARD = (
    "from .vlmopt_runtime.guard import check as _check_stock  # isort:skip",
    "",
    "_check_stock()",
    "del _check_stock",
)


def write_fork(
    plan: Plan, out: Path, report: str, *, copy: bool = False, progress: Progress | None = None
) -> Fork:
    """Writes the fork of a plan to the folder `out`, in place of a fork that is there.

    The same plan gives the same bytes. A run that is killed leaves the old fork or the new one, whole.

    Args:
        plan: what to write; its source must still be readable.
        out: the fork's folder.
        report: text of `report.md`.
        copy: copy the unchanged files of vLLM instead of linking to them.
        progress: called while files are copied.

    Raises:
        UsageError: `out` holds something else, lies in vLLM itself, or cannot be written.
        DriftError: the plan has a drifted rule.
        SourceError: the source cannot be read.
    """
    drifted = next((entry for entry in plan.rules if entry.status == "drifted"), None)
    if drifted is not None:
        raise DriftError(f"{drifted.rule.id} has drifted ({drifted.reason}); nothing was written")
    root = plan.tree.root
    if root is None and copy:
        raise UsageError(f"nothing to copy: {plan.tree.location} is not unpacked here; leave --copy away")
    plugin = plan.plugin
    if root is not None:
        _check_outside(out, root, VLLM)
    if plugin is not None:
        _check_outside(out, plugin.root, plugin.package)
    files = own_files(plan, report, copy=copy)
    with replacing(out) as staging:
        staging.chmod(0o755)
        for path, text in files.items():
            write_text(staging / path, text)
        make_folder(staging / "patches")
        if root is not None:
            lay_stock(root, staging, files.keys(), copy=copy, earlier=out, progress=progress)
        if plugin is not None:
            # It is always on this machine, also where vLLM is not.
            lay_stock(
                plugin.root,
                staging,
                files.keys(),
                package=plugin.package,
                copy=copy,
                earlier=out,
                progress=progress,
            )
    return Fork.open(out)


def own_files(plan: Plan, report: str, *, copy: bool) -> dict[str, str]:
    """Text of every file of the fork that is not stock's, by its path in the fork."""
    changed = {path: change.after for path, change in plan.files.items()}
    package = changed.get(_PACKAGE_FILE) or plan.tree.read(_PACKAGE_FILE)
    changed[_PACKAGE_FILE] = guarded(package)
    changed.update(plan.runtime_files)
    for path in _GUARD_FILES:
        changed[path] = (runtime_folder() / Path(path).name).read_text("utf-8")
    patches = patch_files(plan)
    return {
        **changed,
        **patches,
        **dist_info(plan.tree.version, plan.tree.build, plan.tree.metadata()),
        **(plugin_info(plan.plugin) if plan.plugin else {}),
        LOCK_NAME: _lock(plan, changed, list(patches), copy=copy).to_json(),
        "report.md": report,
    }


def guarded(text: str) -> str:
    """The text of `vllm/__init__.py` with the check of stock before its first import."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.split("\n")
    line = next((number for number, code in enumerate(lines) if not code.startswith("#")), 0)
    for statement in ast.parse(text).body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not is_docstring and not is_future:
            break
        line = statement.end_lineno or line
    inserted = [part + newline.removesuffix("\n") for part in ("", *_GUARD)]
    return "\n".join([*lines[:line], *inserted, *lines[line:]])


def _lock(plan: Plan, changed: Mapping[str, str], patches: list[str], *, copy: bool) -> Lock:
    tree, spec = plan.tree, plan.spec
    befores = {path: change.before for path, change in plan.files.items()}
    befores.setdefault(_PACKAGE_FILE, tree.read(_PACKAGE_FILE))
    unpatched = iter(patches)
    rules = [
        LockedRule(
            id=entry.rule.id,
            sha256=entry.rule.sha256,
            contract=entry.rule.contract.value,
            status=entry.status.value,
            reason=entry.reason,
            files=list(entry.files),
            patch=next(unpatched) if entry.status == "applied" else None,
            bound=entry.rule.bound,
            title=entry.rule.title,
            why=entry.rule.why.strip(),
            needs=tuple(entry.rule.needs),
            brings=tuple(entry.rule.runtime),
        )
        for entry in plan.rules
    ]
    files = {
        path: {"before": sha256(befores[path]) if path in befores else None, "after": sha256(text)}
        for path, text in changed.items()
    }
    watched = {path: sha256(text) for path, text in befores.items() if package_of(path) == VLLM}
    watched.update({path: sha256(tree.read(path)) for path in _VERSION_FILES if tree.exists(path)})
    linked = tree.root is not None and not copy
    return Lock(
        vlmopt=own_version(),
        vllm={"version": tree.version, "build": tree.build, "kind": tree.kind, "location": tree.location},
        spec={
            "name": spec.name,
            "title": spec.title,
            "architecture": spec.architecture,
            "hub": spec.hub[0] if spec.hub else "",
            "sha256": spec.sha256,
        },
        rules=rules,
        files=files,
        stock=LockedStock(
            complete=tree.root is not None,
            root=str(tree.root) if linked else None,
            sha256=watched if not copy else {},
        ),
        plugin=_locked_plugin(plan, befores, copy=copy),
    )


def _locked_plugin(plan: Plan, befores: Mapping[str, str], *, copy: bool) -> LockedPlugin | None:
    plugin = plan.plugin
    if plugin is None:
        return None
    watched = {path: sha256(text) for path, text in befores.items() if package_of(path) == plugin.package}
    return LockedPlugin(
        package=plugin.package,
        distribution=plugin.distribution,
        version=plugin.version,
        kind=plugin.kind,
        location=plugin.location,
        root=None if copy else str(plugin.root),
        sha256={} if copy else watched,
        modules="" if copy else modules(plugin.location),
    )


def _check_outside(out: Path, root: Path, package: str) -> None:
    target, stock = Path(os.path.realpath(out)), Path(os.path.realpath(root / package))
    if target.is_relative_to(stock) or stock.is_relative_to(target):
        what = "vLLM" if package == VLLM else package
        raise UsageError(f"{out} would overwrite the {what} in {root}: name another folder with --out")


def write_text(path: Path, text: str) -> None:
    """Writes a file of a fork; its bytes and mode hang on nothing but the arguments."""
    make_folder(path.parent)
    path.write_bytes(text.encode("utf-8"))
    path.chmod(FILE_MODE)
