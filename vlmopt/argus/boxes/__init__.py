"""Boxes as text: three formats behind one interface.

| format | a box | tokens | error of a coordinate |
| --- | --- | --- | --- |
| `float` | `<box>0.125,0.250,0.500,0.750</box>` | ordinary text | 0.0005 |
| `bin` | `<box><bin_124><bin_249><bin_499><bin_749></box>` | one a coordinate | 0.5 / (N - 1) |
| `codebook` | `<box><code_17><code_803></box>` | one a corner | 0.5 / G |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlmopt.argus.boxes.bins import BinFormat
from vlmopt.argus.boxes.codebook import CodebookFormat
from vlmopt.argus.boxes.format import CLOSE, OPEN, BoxFormat, LabelledBox
from vlmopt.argus.boxes.geometry import Box, BoxError
from vlmopt.argus.boxes.text import FloatFormat

FORMATS: Mapping[str, type[BoxFormat]] = {
    kind.name: kind for kind in (FloatFormat, BinFormat, CodebookFormat)
}

__all__ = [
    "CLOSE",
    "FORMATS",
    "OPEN",
    "BinFormat",
    "Box",
    "BoxError",
    "BoxFormat",
    "CodebookFormat",
    "FloatFormat",
    "LabelledBox",
    "load_format",
]


def load_format(settings: Mapping[str, Any]) -> BoxFormat:
    """The format that `BoxFormat.settings` describes: `{"name": "bin", "bins": 1000}`.

    Raises:
        BoxError: the name is not a format's, or its settings are not its own.
    """
    rest = dict(settings)
    name = rest.pop("name", None)
    if name not in FORMATS:
        raise BoxError(f"no box format is named {name!r}; there are {', '.join(FORMATS)}")
    try:
        return FORMATS[name](**rest)
    except TypeError as error:
        raise BoxError(f"settings that the box format {name} does not take: {error}") from error
