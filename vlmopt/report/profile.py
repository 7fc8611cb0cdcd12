"""A profile, and the plan that it leads to, on a terminal and as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from vlmopt.measure.savings import LEAST
from vlmopt.report.terminal import columns, status_text
from vlmopt.report.wording import build_name

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vlmopt.measure.profile import Written
    from vlmopt.measure.profile_file import Profile, Spread
    from vlmopt.measure.savings import ProfilePlan, Saving
    from vlmopt.plan import Plan

_BAR = 24


def profile_page(written: Written) -> RenderableType:
    """Where the time went, stage by stage, and what was written."""
    profile = written.profile
    side = "stock" if profile.fork is None else f"the fork {profile.fork}"
    folder = "the spec's small model folder" if profile.folder is None else profile.folder
    head = Text(f"{profile.title}, {side}, vLLM {profile.vllm}, {profile.engine} engine", style="bold")
    facts = Text(
        f"{profile.images}; {profile.prompt_tokens:,} prompt tokens; {profile.requests} requests; {folder}\n"
        f"{profile.machine.cpu}, device {profile.machine.device}"
    )
    most = max(stage.share for stage in profile.stages)
    rows = [
        (
            stage.title,
            _milliseconds(stage.seconds),
            f"{100 * stage.share:.1f}%" if stage.seen else "-",
            _bar(stage.share / most) if stage.seen else stage.note,
        )
        for stage in profile.stages
    ]
    table = columns(("stage", "ms (quartiles)", "share", ""), rows)
    files = Text("\n".join(f"wrote {path}" for path in written.files))
    return Group(head, facts, "", table, "", Text("\n".join(_below(profile))), "", files)


def _below(profile: Profile) -> list[str]:
    moved, cost = profile.moved, profile.clock.median / profile.untimed.median - 1
    way = "on the wire to the engine process" if moved.wire else "to the engine, which is in this process"
    where = "to the device" if moved.leaves_host else "for the device, which is the host here"
    copies = f"{moved.copies} copies, {moved.pinned} of them page-locked"
    lines = [
        f"request    {_milliseconds(profile.clock)} ms by a clock outside; the stages add up to that",
        f"timers     {100 * cost:+.1f}%: {_milliseconds(profile.untimed)} ms without them",
        f"moved      {moved.to_engine / 1e6:.2f} MB {way}",
        f"           {moved.to_device / 1e6:.2f} MB in {copies}, {where}",
    ]
    if profile.absent:
        lines.append(
            f"absent     {len(profile.absent)} functions that this vLLM does not have, or has not loaded"
        )
    return [*lines, *(f"note       {note}" for note in profile.notes)]


def _milliseconds(spread: Spread) -> str:
    return f"{1e3 * spread.median:.2f} ({1e3 * spread.low:.2f} to {1e3 * spread.high:.2f})"


def _bar(part: float) -> str:
    eighths = round(8 * _BAR * part)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def profile_object(written: Written) -> dict[str, Any]:
    """The profile as its file holds it, and the files."""
    return written.profile.model_dump(mode="json") | {"files": [str(path) for path in written.files]}


def plan_page(plan: Plan, predicted: ProfilePlan | None) -> RenderableType:
    """What would become of each recipe, and, from a profile, what it would save."""
    return _plain_plan(plan) if predicted is None else _predicted_plan(predicted)


def _plain_plan(plan: Plan) -> RenderableType:
    rows = [
        (each.rule.id, each.rule.contract.value, status_text(each.status), each.reason) for each in plan.rules
    ]
    note = (
        "No profile: recipes stand in the rules' own order, and nothing is predicted.\n"
        f"vlmopt profile --model {plan.spec.name} --out FILE makes one; then give it with --profile FILE."
    )
    return Group(_title(plan), "", columns(("recipe", "contract", "status", "why"), rows), "", Text(note))


def _predicted_plan(planned: ProfilePlan) -> RenderableType:
    rows = [
        (
            saving.plan.rule.id,
            _predicted(saving),
            ", ".join(f"{stage} {100 * share:.1f}%" for stage, share in saving.stages.items()),
            saving.plan.rule.contract.value,
            status_text(saving.plan.status),
            _why(saving),
        )
        for saving in planned.savings
    ]
    clock = 1e3 * planned.profile.clock.median
    total = Text(
        f"Together: {100 * planned.share:.0f}% of {clock:.1f} ms before the first token, "
        f"{1e3 * planned.seconds:.1f} ms; predicted from the profile's stages, not measured."
    )
    head = ("recipe", "would save", "of stages", "contract", "status", "why")
    notes = [Text(f"note: {note}", style="yellow") for note in planned.notes]
    return Group(_title(planned.plan), "", columns(head, rows), "", total, *notes)


def _predicted(saving: Saving) -> str:
    if saving.share is None or saving.seconds is None:
        return "not predicted"
    return f"{100 * saving.share:.1f}%  {1e3 * saving.seconds:.1f} ms"


def _why(saving: Saving) -> str:
    if saving.plan.reason or not saving.needed_by or saving.share is None or saving.share >= LEAST:
        return saving.plan.reason
    return f"needed by {', '.join(saving.needed_by)}"


def _title(plan: Plan) -> Text:
    return Text(f"{plan.spec.title} on vLLM {build_name(plan.tree)}, {plan.tree.location}", style="bold")


def planned_object(plan: Plan, predicted: ProfilePlan | None) -> dict[str, Any]:
    """The plan as one object; the prediction of a recipe is null where there is none."""
    found = {saving.plan.rule.id: saving for saving in predicted.savings} if predicted else {}
    return {
        "model": plan.spec.name,
        "vllm": plan.tree.version,
        "saves_share": predicted.share if predicted else None,
        "saves_seconds": predicted.seconds if predicted else None,
        "recipes": [
            {
                "id": each.rule.id,
                "contract": each.rule.contract.value,
                "status": each.status.value,
                "reason": each.reason,
                "saves_share": found[each.rule.id].share if each.rule.id in found else None,
                "saves_seconds": found[each.rule.id].seconds if each.rule.id in found else None,
            }
            for each in plan.rules
        ],
    }
