"""A flame graph as one SVG file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

WIDTH, ROW, HEAD, MARGIN = 1200, 17, 46, 10
_LETTER = 6.3  # px of a letter of the font below
_LEAST = 0.0008  # of the width: smaller frames cannot be seen
_STYLE = """
svg{background:#fff;font:11px ui-monospace,Menlo,Consolas,monospace}
text{fill:#1b1f24}.title{font-size:14px;font-weight:600}.note{fill:#59636e}
rect{stroke:#fff;stroke-width:.5}g:hover>rect{stroke:#000;stroke-width:1}
.vllm{fill:hsl(var(--h) 70% 74%)}.fork{fill:hsl(var(--h) 55% 70%)}.other{fill:hsl(var(--h) 20% 82%)}
@media (prefers-color-scheme:dark){svg{background:#0d1117}
.title{fill:#e6edf3}.note{fill:#9198a1}rect{stroke:#0d1117}g:hover>rect{stroke:#fff}}
"""


@dataclass
class _Frame:
    name: str
    value: int = 0
    inner: dict[str, _Frame] = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((frame.depth() for frame in self.inner.values()), default=0)


def flame_svg(stacks: Mapping[str, int], title: str) -> str:
    """Draws collapsed stacks (frames parted by semicolons, microseconds), outermost frame on top.

    A frame is as wide as its share of the time; pointing at one shows its name, its time and its share.
    Frames of vLLM, of a fork's own runtime and of all else differ in colour.
    """
    root = _Frame("all")
    for stack, value in stacks.items():
        frame = root
        frame.value += value
        for name in stack.split(";"):
            frame = frame.inner.setdefault(name, _Frame(name))
            frame.value += value
    height = HEAD + ROW * root.depth() + MARGIN
    note = f"{root.value / 1e6:.2f} s of CPU in Python threads; width is time, callers stand above callees"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
            f'aria-label="{escape(title, {chr(34): "&quot;"})}">',
            f"<style>{_STYLE}</style>",
            f'<text class="title" x="{MARGIN}" y="20">{escape(title)}</text>',
            f'<text class="note" x="{MARGIN}" y="37">{escape(note)}</text>',
            *_drawn(root, float(MARGIN), 0, root.value, (WIDTH - 2 * MARGIN) / max(root.value, 1)),
            "</svg>\n",
        ]
    )


def _drawn(frame: _Frame, x: float, depth: int, total: int, scale: float) -> Iterator[str]:
    width = frame.value * scale
    if frame.value < _LEAST * total:
        return
    y = HEAD + ROW * depth
    kind = "fork" if "vlmopt_runtime" in frame.name else "vllm" if frame.name.startswith("vllm/") else "other"
    hue = (210 if kind == "fork" else 20) + zlib.crc32(frame.name.encode()) % 40
    tip = f"{frame.name}, {frame.value / 1e3:,.1f} ms, {100 * frame.value / total:.1f}%"
    label = _fitting(frame.name, int((width - 4) / _LETTER))
    text = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(label)}</text>' if label else ""
    yield (
        f"<g><title>{escape(tip)}</title>"
        f'<rect class="{kind}" style="--h:{hue}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 1}" '
        f'rx="1"/>{text}</g>'
    )
    for inner in sorted(frame.inner.values(), key=lambda each: (-each.value, each.name)):
        yield from _drawn(inner, x, depth + 1, total, scale)
        x += inner.value * scale


def _fitting(name: str, letters: int) -> str:
    """The name, or its function alone, or the beginning of that; "" where nothing of it fits."""
    function = name.rpartition(":")[2]
    for text in (name, function):
        if len(text) <= letters:
            return text
    return f"{function[: letters - 1]}…" if letters >= 4 else ""
