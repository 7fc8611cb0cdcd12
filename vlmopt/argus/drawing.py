"""Draws boxes with their labels on a picture."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from vlmopt.argus.boxes import LabelledBox

# Told apart also by people who do not see red and green as others do (Okabe and Ito 2008); black text on all.
COLORS = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00")
_SHOWN = 512
_POINTS = 14
_LINE = 3


def draw_boxes(picture: Image.Image, boxes: Sequence[LabelledBox]) -> Image.Image:
    """A copy of an RGB picture with its boxes, each in the next of `COLORS`, and their labels.

    A picture whose longer side is under 512 pixels is enlarged to it, so that labels can be read.
    """
    factor = max(_SHOWN / max(picture.size), 1.0)
    width, height = (max(round(side * factor), 1) for side in picture.size)
    page = picture.resize((width, height), Image.Resampling.BICUBIC)
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(_POINTS)
    for number, one in enumerate(boxes):
        color = COLORS[number % len(COLORS)]
        left, top, right, bottom = one.box.to_pixels(width - 1, height - 1)
        pen.rectangle((left, top, right, bottom), outline=color, width=_LINE)
        if one.label:
            # Above the box, or inside it where there is no room.
            high = _POINTS + 2 * _LINE
            above = top - high if top >= high else top
            wide = pen.textlength(one.label, font=font) + 2 * _LINE
            start = max(min(left, width - wide), 0)
            pen.rectangle((start, above, start + wide, above + high), fill=color)
            pen.text((start + _LINE, above + _LINE), one.label, fill="black", font=font)
    return page
