"""The JSON objects of `--json`. They are described in docs/cli.md; a key, once there, stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlmopt.errors import VlmoptError
    from vlmopt.fork import LockedPlugin
    from vlmopt.infer import Draft
    from vlmopt.plan import Plan
    from vlmopt.report.review import Review
    from vlmopt.rulecheck import Problem
    from vlmopt.rules import Rule
    from vlmopt.scan import Scan
    from vlmopt.sources import InstalledPlugin
    from vlmopt.specs import Spec


def plan_object(plan: Plan, fork: Path) -> dict[str, Any]:
    """Of `apply`."""
    from vlmopt.report.changes import changed_files

    tree = plan.tree
    return {
        "fork": str(fork),
        "spec": plan.spec.name,
        "architecture": plan.spec.architecture,
        "vllm": {"version": tree.version, "build": tree.build, "kind": tree.kind, "location": tree.location},
        "plugin": _plugin(plan.plugin),
        "recipes": [
            {
                "id": each.rule.id,
                "status": each.status.value,
                "contract": each.rule.contract.value,
                "reason": each.reason,
                "files": list(each.files),
            }
            for each in plan.rules
        ],
        "files": [
            {"path": f.path, "added": f.added, "removed": f.removed, "recipes": list(f.rules)}
            for f in changed_files(plan)
        ],
        "new_files": sorted(plan.runtime_files),
    }


def wheel_object(wheel: Path, plugin: Path | None) -> dict[str, Any]:
    """Of `wheel`."""
    return {
        "wheel": str(wheel),
        "bytes": wheel.stat().st_size,
        "plugin_wheel": None if plugin is None else str(plugin),
    }


def _plugin(plugin: InstalledPlugin | LockedPlugin | None) -> dict[str, str] | None:
    """The package outside of vLLM that the model comes from; None for a model of vLLM's own."""
    if plugin is None:
        return None
    keys = ("package", "distribution", "version", "kind", "location")
    return {key: getattr(plugin, key) for key in keys}


def scan_object(scan: Scan) -> dict[str, Any]:
    """Of `scan`."""
    return {
        "vllm": {"version": scan.vllm, "location": scan.location},
        "recipes": list(scan.recipes),
        "architectures": [
            {
                "architecture": row.architecture,
                "spec": row.spec,
                "problem": row.problem,
                "recipes": {
                    name: {"status": finding.status.value, "reason": finding.reason}
                    for name, finding in row.findings.items()
                },
            }
            for row in scan.rows
        ],
        "counts": {status.value: count for status, count in sorted(scan.counts().items())},
    }


def diff_object(review: Review) -> dict[str, Any]:
    """Of `diff`."""
    fork = review.fork
    return {
        "fork": str(fork.path),
        "spec": fork.lock.spec["name"],
        "vllm": dict(fork.lock.vllm),
        "plugin": _plugin(fork.lock.plugin),
        "recipes": [
            {"id": rule.id, "status": rule.status, "contract": rule.contract, "reason": rule.reason}
            for rule in fork.lock.rules
        ],
        "changed": list(review.evidence.changed),
        "verification": {each.level: each.model_dump(mode="json") for each in review.evidence.verified},
        "measured": review.evidence.bench.model_dump(mode="json") if review.evidence.bench else None,
        "patches": [
            {
                "id": name,
                "title": patch.title,
                "diff": patch.text,
                "files": [{"path": f.path, "added": f.added, "removed": f.removed} for f in patch.files],
            }
            for name, patch in review.patches.items()
        ],
    }


def rule_object(rule: Rule) -> dict[str, Any]:
    """Of `rules show`: the rule as it was read, its file and that file's sha256."""
    data = rule.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**data, "path": str(rule.path) if rule.path else None, "sha256": rule.sha256}


def rules_object(rules: Sequence[Rule]) -> dict[str, Any]:
    """Of `rules list`."""
    return {
        "recipes": [
            {"id": rule.id, "title": rule.title, "contract": rule.contract.value, "needs": list(rule.needs)}
            for rule in rules
        ]
    }


def problems_object(checked: Sequence[Rule], problems: Sequence[Problem]) -> dict[str, Any]:
    """Of `rules check`."""
    return {
        "checked": [rule.id for rule in checked],
        "problems": [{"where": problem.where, "text": problem.text} for problem in problems],
    }


def spec_object(spec: Spec) -> dict[str, Any]:
    """Of `models show`."""
    return {**spec.facts(), "path": str(spec.path) if spec.path else None, "sha256": spec.sha256}


def specs_object(specs: Sequence[Spec]) -> dict[str, Any]:
    """Of `models list`."""
    return {
        "models": [
            {
                "name": spec.name,
                "title": spec.title,
                "architecture": spec.architecture,
                "geometry": spec.images.geometry.value,
                "hub": list(spec.hub),
            }
            for spec in specs
        ]
    }


def draft_object(draft: Draft) -> dict[str, Any]:
    """Of `models infer`."""
    return {
        "vllm": {"version": draft.vllm},
        "spec": draft.spec().facts(),
        "fill_in": draft.gaps(),
        "fields": [{"name": f.name, "kind": f.kind, "modality": f.modality} for f in draft.fields],
        "targets": [
            {"kind": t.kind, "path": t.path, "line": t.line, "code": t.source} for t in draft.targets
        ],
        "hf_processor": draft.hf_processor,
        "yaml": draft.yaml(),
    }


def error_object(error: VlmoptError, log: Path | None = None) -> dict[str, Any]:
    """Of any command that fails: what stderr says too. `log`: all that a process wrote before it failed."""
    message = (
        str(error) if log is None else f"{error}. All that it wrote is in {log}: read it, then try again"
    )
    kept = {} if log is None else {"log": str(log)}
    return {"error": {"kind": type(error).__name__, "message": message, "exit_code": error.exit_code, **kept}}
