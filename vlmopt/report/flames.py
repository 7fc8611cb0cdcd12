"""A flame graph inside the page: its frames, names and tips, and nothing else that an SVG may hold."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from markupsafe import Markup

_SPACE = "{http://www.w3.org/2000/svg}"
_TAGS = ("g", "title", "rect", "text")
_NUMBERS = ("x", "y", "width", "height", "rx")
_KINDS = ("fork", "vllm", "other", "title", "note")
_DEEPEST = 400  # elements; nobody calls so deep


def inline_flame(svg: str) -> Markup | None:
    """The picture for the page; None for what is no SVG with a size.

    Only frames, names and tips are taken over, so that a file that somebody has changed cannot run anything,
    load anything or name anything of the page. Colours are those of the page.
    """
    try:
        root = ElementTree.fromstring(svg)
        _, _, width, height = (float(number) for number in root.get("viewBox", "").split())
    except (ElementTree.ParseError, ValueError):
        return None
    body = Markup("").join(part for child in root for part in _element(child, 0))
    return Markup('<svg viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>').format(
        width, height, root.get("aria-label", "flame graph"), body
    )


def _element(element: ElementTree.Element, depth: int) -> Iterator[Markup]:
    tag = element.tag.removeprefix(_SPACE)
    if tag not in _TAGS or depth > _DEEPEST:
        return
    attributes = Markup("").join(
        Markup(' {}="{:g}"').format(name, float(value))
        for name in _NUMBERS
        if _is_number(value := element.get(name, ""))
    )
    kind = element.get("class", "")
    if kind in _KINDS:
        attributes += Markup(' class="{}"').format(kind)
    inner = Markup("").join(part for child in element for part in _element(child, depth + 1))
    yield Markup("<{0}{1}>{2}{3}</{0}>").format(tag, attributes, (element.text or "").strip(), inner)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e9
    except ValueError:
        return False
