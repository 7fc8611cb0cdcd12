"""A verification on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vlmopt.report.wording import promise_words, stage_words
from vlmopt.verify.compare import Stage

if TYPE_CHECKING:
    from vlmopt.verify.result import Verification


def verification_page(result: Verification) -> RenderableType:
    """What was compared, stage by stage, and what came out."""
    tally = result.tally
    stages = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for name in ("compared", "times", "result"):
        stages.add_column(name, justify="right" if name == "times" else "left")
    for stage in Stage:
        if tally.compared[stage] or tally.differed[stage]:
            stages.add_row(stage.value, f"{tally.compared[stage]:,}", _outcome(result, stage))
    head = Text(f"{result.model} on vLLM {result.vllm}, level {result.level}, seed {result.seed}")
    parts: list[RenderableType] = [head, Text(), stages, Text(), Text(_counts(result))]
    if result.promise.rules:
        rules = ", ".join(result.promise.rules)
        parts.append(Text(f"The fork is {result.promise.contract} because of {rules}."))
    if result.changed:
        parts.append(Text(f"Changed since apply: {', '.join(result.changed)}"))
    return Group(*parts, Text(), *_verdict(result))


def _outcome(result: Verification, stage: Stage) -> Text:
    tally = result.tally
    breaches = result.failure.breaches if result.failure else ()
    broken = any(line.startswith(f"{stage.value}: ") for line in breaches)
    style = "bold red" if broken else "yellow" if tally.differed[stage] else "green"
    return Text(stage_words(broken, tally.differed[stage], tally.distance.get(stage)), style=style)


def _counts(result: Verification) -> str:
    tally = result.tally
    refused = f", {tally.refused:,} of them refused by stock and by the fork alike" if tally.refused else ""
    return (
        f"{tally.examples:,} examples in {result.seconds:.0f} s: {tally.requests:,} requests{refused}, "
        f"{tally.images:,} images"
    )


def _verdict(result: Verification) -> list[Text]:
    failure = result.failure
    verdict = promise_words(result.holds, result.promise.contract)
    if failure is None:
        return [Text(verdict, style="bold yellow" if result.promise.rules else "bold green")]
    lines = [Text(verdict, style="bold red"), Text("Smallest case found:")]
    lines += [Text(f"  {line}") for line in failure.case]
    lines += [Text("How it differs:"), *(Text(f"  {line}") for line in failure.breaches)]
    if not failure.stable:
        lines.append(Text("Asked again, the same case was equal: the outcome is not stable."))
    if failure.culprit:
        lines.append(Text(f"Most likely from: {failure.culprit}"))
    if failure.folder:
        lines.append(Text(f"Run it again: vlmopt verify {result.fork} --replay {failure.folder}"))
    return lines
