"""Average precision of boxes with labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from vlmopt.argus.boxes import Box, LabelledBox

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)
"""DenseCap's thresholds of overlap."""


@dataclass(frozen=True)
class Detection:
    """A box that was answered about picture `picture`; a higher `confidence` ranks earlier."""

    picture: int
    label: str
    box: Box
    confidence: float


def average_precision(
    found: Sequence[Detection], truth: Sequence[Sequence[LabelledBox]], threshold: float
) -> float:
    """The area under the precision-recall curve of all pictures and labels together, 0..1.

    The average precision of PASCAL VOC since 2010 (Everingham et al. 2015): detections are ranked by
    confidence, precision at a recall is the best at that recall or above, and its area is taken exactly, not
    sampled. As in dense captioning (DenseCap, Johnson et al. 2016, section 4.2) labels are not averaged over
    but must match; here, where every label is a fixed phrase, they must be equal in place of METEOR.
    As in COCO's program a detection takes, of the things of its picture that have its label and are not yet
    taken, the one that it overlaps most, and is right where that IoU is at least `threshold`. Detections of
    equal confidence are one point of the curve.

    Args:
        truth: the things of each picture, by number.

    Raises:
        ValueError: `truth` holds no thing.
    """
    total = sum(map(len, truth))
    if not total:
        raise ValueError("average precision needs something that can be found")
    ranked = sorted(found, key=lambda one: -one.confidence)
    taken: dict[int, set[int]] = defaultdict(set)
    points: list[tuple[float, float]] = []
    seen = right = 0
    for _, tied in groupby(ranked, key=lambda one: one.confidence):
        for one in tied:
            seen += 1
            best = _best(one, truth[one.picture], taken[one.picture])
            if best is not None and best[0] >= threshold:
                taken[one.picture].add(best[1])
                right += 1
        points.append((right / total, right / seen))
    area = precision = 0.0
    for (recall, here), (before, _) in zip(points[::-1], [*points[-2::-1], (0.0, 1.0)], strict=False):
        precision = max(precision, here)
        area += (recall - before) * precision
    return area


def mean_average_precision(
    found: Sequence[Detection], truth: Sequence[Sequence[LabelledBox]]
) -> tuple[float, dict[float, float]]:
    """The mean of `average_precision` over `THRESHOLDS` (DenseCap's mAP), and each one by its threshold."""
    by_threshold = {threshold: average_precision(found, truth, threshold) for threshold in THRESHOLDS}
    return sum(by_threshold.values()) / len(by_threshold), by_threshold


def _best(one: Detection, things: Sequence[LabelledBox], taken: set[int]) -> tuple[float, int] | None:
    """The IoU and the number of the thing that a detection may take; None if there is none."""
    free = [
        (one.box.iou(thing.box), number)
        for number, thing in enumerate(things)
        if number not in taken and thing.label == one.label
    ]
    return max(free, default=None)
