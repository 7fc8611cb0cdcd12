"""Cases that are a step simpler than a case, for where hypothesis's own shrinking gets stuck.

hypothesis shrinks what was drawn, not what it means: the second of two requests cannot become the first, and
a size that one branch of the space has drawn cannot become one of another branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from vlmopt.verify.images import ANIMATED, ARRAYS, FORMS_OF, ImageCase
from vlmopt.verify.requests import Case, RequestCase

_PLAIN_REQUEST: Mapping[str, Any] = {"after": "", "given": "text", "processor_kwargs": {}, "cached": False}
_PLAIN_IMAGE: Mapping[str, Any] = {
    "mode": "RGB",
    "form": "pil",
    "damage": "none",
    "frames": 1,
    "orientation": 1,
    "content": "black",
    "seed": 0,
}


def simpler_cases(case: Case) -> Iterator[Case]:
    """Every case with one request, image, text, size or property less, the largest steps first."""
    if len(case) > 1:
        for at in range(len(case)):
            yield case[:at] + case[at + 1 :]
    for at, request in enumerate(case):
        for other in _simpler_requests(request):
            yield (*case[:at], other, *case[at + 1 :])


def _simpler_requests(request: RequestCase) -> Iterator[RequestCase]:
    images, between = request.images, request.between
    for at in range(len(images)):
        yield replace(
            request, images=images[:at] + images[at + 1 :], between=between[:at] + between[at + 1 :]
        )
    if any(between):
        yield replace(request, between=("",) * len(between))
    for name, plain in _PLAIN_REQUEST.items():
        if getattr(request, name) != plain:
            yield replace(request, **{name: plain})
    for at, image in enumerate(images):
        for other in _simpler_images(image):
            yield replace(request, images=(*images[:at], other, *images[at + 1 :]))


def _simpler_images(image: ImageCase) -> Iterator[ImageCase]:
    for name, plain in _PLAIN_IMAGE.items():
        if getattr(image, name) != plain and _can_be(plainer := replace(image, **{name: plain})):
            yield plainer
    width, height = image.width, image.height
    for share in (0.5, 0.75):
        if width > 1 and height > 1:
            yield replace(image, width=int(width * share), height=int(height * share))
    for less in _less(width):
        yield replace(image, width=less)
    for less in _less(height):
        yield replace(image, height=less)


def _less(side: int) -> list[int]:
    """Shorter sides, the shortest first: one pixel, half, three quarters, and one less."""
    return sorted({each for each in (1, side // 2, side * 3 // 4, side - 1) if 0 < each < side})


def _can_be(image: ImageCase) -> bool:
    """Whether there is such a picture: no mode has every form, and only files are animated or damaged."""
    is_file = image.form not in ("pil", *ARRAYS)
    return (
        image.form in FORMS_OF[image.mode]
        and (image.frames == 1 or image.form in ANIMATED)
        and (image.damage == "none" or is_file)
        and (image.orientation == 1 or image.form in ("pil", "JPEG", "PNG"))
    )
