"""How the small model folder of a spec is built, in words."""

from __future__ import annotations

from rich.text import Text

from vlmopt.small import THIRD_PARTY, WEIGHTS
from vlmopt.specs import Small, Spec


def _added(small: Small) -> str:
    rows = [
        f"{each.texts[0]} to {each.texts[-1]}" if len(each.texts) > 1 else each.texts[0]
        for each in small.adds
    ]
    return f", and adds {', '.join(rows)}" if rows else ""


def small_folder_text(spec: Spec) -> Text:
    """The steps, and the command that takes them."""
    small = spec.small
    if small is None:
        return Text("\nThe spec describes no small model folder: give one of the hub with --folder.")
    if small.checkpoint is not None:
        return Text(
            f"\nThe model is small itself: {small.checkpoint} in its package is taken as it is, with weights."
        )
    gains = "".join(f"; {gain.names} times {gain.factor:g}" for gain in small.weights.gains)
    steps = [
        f"copies {small.files} (NAME.txt becomes NAME), beside the spec's file",
        f"unpacks {small.tokenizer} as tokenizer.json{_added(small)}",
        f"makes {WEIGHTS} with transformers, under the hub's names, from seed {small.weights.seed}: "
        f"matrices N(0, 1 / fan in), embeddings N(0, 1), norms near 1, biases near 0{gains}",
    ]
    if small.third_party.files:
        steps.append(
            f"makes {THIRD_PARTY}/ from {small.third_party.files}: the same values as transformers names them"
        )
    trust = "; load it with trust_remote_code" if small.trust_remote_code else ""
    head = (
        f"\nvlmopt models build {spec.name} --out DIR makes the small model folder, without the hub{trust}:"
    )
    return Text("\n".join([head, *(f"  {number}. {step}" for number, step in enumerate(steps, 1))]))
