"""Reads a folder in COCO's layout, so that a model can be trained on real pictures.

FOLDER/annotations/instances_SPLIT.json     boxes with categories
FOLDER/annotations/captions_SPLIT.json      captions; either file is enough
FOLDER/SPLIT/NAME.jpg                       the pictures; FOLDER/images/ is looked at too
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vlmopt.argus.annotations import Picture, Record, checked, clipped, find_picture, open_picture, read_json
from vlmopt.argus.boxes import Box
from vlmopt.argus.examples import Example, Sample, caption, dense_caption, grounding, vqa, with_article
from vlmopt.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image


class _Category(Record):
    id: int
    name: str


class _Instance(Record):
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int = 0


class _Caption(Record):
    image_id: int
    caption: str


class _Instances(Record):
    images: list[Picture]
    categories: list[_Category]
    annotations: list[_Instance]


class _Captions(Record):
    images: list[Picture]
    annotations: list[_Caption]


class CocoFolder:
    """The pictures of one split that have a caption or a box, by number, in order of their ids.

    Boxes are [x, y, width, height] in pixels; what lies outside the picture is cut off, and a box of which
    nothing is left is dropped, as are crowds.

    Raises:
        UsageError: a file is missing, is not JSON, lacks what COCO's format says, or names a picture or a
            category that it does not define; from `image()`, the picture is missing or has another size.
    """

    def __init__(self, folder: Path, split: str) -> None:
        notes = folder / "annotations"
        sources = {kind: notes / f"{kind}_{split}.json" for kind in ("instances", "captions")}
        if not any(path.is_file() for path in sources.values()):
            raise UsageError(f"{notes} has neither instances_{split}.json nor captions_{split}.json")
        self._folders = [path for path in (folder / split, folder / "images") if path.is_dir()]
        if not self._folders:
            raise UsageError(f"{folder} has no pictures: neither {split}/ nor images/ is there")
        self._pictures: dict[int, Picture] = {}
        self._captions: dict[int, list[str]] = defaultdict(list)
        self._boxes: dict[int, list[tuple[str, Box]]] = defaultdict(list)
        if sources["instances"].is_file():
            self._take_instances(sources["instances"])
        if sources["captions"].is_file():
            self._take_captions(sources["captions"])
        self._ids = sorted(self._boxes.keys() | self._captions.keys())
        self._categories = sorted({label for boxes in self._boxes.values() for label, _ in boxes})

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Sample:
        number = self._ids[index]
        picture = self._pictures[number]
        return Sample(picture.file_name, partial(self._open, picture), tuple(self._examples(number)))

    def _take_instances(self, path: Path) -> None:
        read = checked(read_json(path), _Instances, path)
        self._pictures.update({picture.id: picture for picture in read.images})
        names = {category.id: category.name for category in read.categories}
        for note in read.annotations:
            picture = self._picture(note.image_id, path)
            if note.category_id not in names:
                raise UsageError(
                    f"{path}: an annotation names category {note.category_id}, which is not defined"
                )
            box = clipped(note.bbox, picture.width, picture.height)
            if box is not None and not note.iscrowd:
                self._boxes[note.image_id].append((names[note.category_id], box))

    def _take_captions(self, path: Path) -> None:
        read = checked(read_json(path), _Captions, path)
        self._pictures.update({picture.id: picture for picture in read.images})
        for note in read.annotations:
            self._captions[self._picture(note.image_id, path).id].append(" ".join(note.caption.split()))

    def _picture(self, number: int, path: Path) -> Picture:
        if number not in self._pictures:
            raise UsageError(f"{path}: an annotation names picture {number}, which is not defined")
        return self._pictures[number]

    def _examples(self, number: int) -> Iterator[Example]:
        """Each caption; all boxes; where the only thing of a category is; and whether a thing is there."""
        for text in self._captions[number]:
            yield caption(text)
        boxes = sorted(self._boxes[number], key=lambda labelled: labelled[1].corners)
        if not boxes:
            return
        yield dense_caption(boxes)
        labels = [label for label, _ in boxes]
        for label, box in boxes:
            if labels.count(label) == 1:
                yield grounding("category", f"the {label}", box)
        absent = [label for label in self._categories if label not in labels]
        # Which one is asked about depends on the picture alone, so that every run asks the same.
        yield vqa("presence", f"Is there {with_article(labels[number % len(labels)])}?", "yes")
        if absent:
            yield vqa("presence", f"Is there {with_article(absent[number % len(absent)])}?", "no")

    def _open(self, picture: Picture) -> Image:
        return open_picture(find_picture([picture.file_name], self._folders), (picture.width, picture.height))
