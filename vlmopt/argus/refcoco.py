"""Reads referring expressions in the layouts in which RefCOCO, RefCOCO+ and RefCOCOg are given away.

The REFER release (Yu et al. 2016, github.com/lichengunc/refer): a list of
`{"ref_id", "ann_id", "image_id", "split", "sentences": [{"sent"}]}`, as `refs(unc).p` (a pickle; one with
more in it than plain values is refused) or the same as JSON. `instances.json`, in COCO's format, lies beside.

MDETR's files (Kamath et al. 2021; `finetune_refcoco_val.json`), one a split, in COCO's format with a phrase
as the `caption` of each picture: `{"images": [{"id", "file_name", "width", "height", "caption"}],
"annotations": [{"image_id", "bbox"}]}`. A picture stands there once for each phrase.

Boxes are [x, y, width, height] in pixels; what lies outside the picture is cut off.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from vlmopt.argus.annotations import (
    Picture,
    Record,
    checked,
    clipped,
    find_picture,
    open_picture,
    read_json,
)
from vlmopt.argus.examples import Example, Sample, grounding
from vlmopt.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image

INSTANCES = "instances.json"
_KIND = "phrase"

Bbox = tuple[float, float, float, float]


class _Sentence(Record):
    sent: str


class _Ref(Record):
    ref_id: int
    ann_id: int
    image_id: int
    split: str
    sentences: list[_Sentence]


class _Instance(Record):
    id: int
    bbox: Bbox


class _Instances(Record):
    images: list[Picture]
    annotations: list[_Instance]


class _PhrasePicture(Picture):
    caption: str


class _PhraseBox(Record):
    image_id: int
    bbox: Bbox


class _Phrases(Record):
    images: Annotated[list[_PhrasePicture], Field(min_length=1)]
    annotations: list[_PhraseBox]


class ReferringExpressions:
    """The pictures of one split that have a phrase, in order of their names; each phrase is asked for.

    Args:
        path: a file in one of the layouts above.
        split: `val`, `testA`, ...; empty for MDETR's files, which hold one each.
        images: the folder of the pictures.

    Raises:
        UsageError: a file is missing or lacks what its layout says, the split is not there, or a phrase has
            no box in its picture; from `image()`, the picture is missing or has another size.
    """

    def __init__(self, path: Path, split: str, images: Path) -> None:
        self._folder = images
        self._pictures: dict[str, Picture] = {}
        self._examples: dict[str, list[Example]] = defaultdict(list)
        content = _read(path)
        if isinstance(content, list):
            self._take_refs(path, checked(content, list[_Ref], path), split)
        else:
            if split:
                raise UsageError(f"{path} holds one split alone: name none")
            self._take_phrases(path, checked(content, _Phrases, path))
        self._names = sorted(self._examples)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Sample:
        name = self._names[index]
        return Sample(name, partial(self._open, self._pictures[name]), tuple(self._examples[name]))

    def _take_refs(self, path: Path, refs: list[_Ref], split: str) -> None:
        splits = list(dict.fromkeys(ref.split for ref in refs))
        if split not in splits:
            wrong = f"has no split {split!r}" if split else "has several splits"
            raise UsageError(f"{path} {wrong}: choose {', '.join(splits)}, as FILE:SPLIT")
        beside = path.with_name(INSTANCES)
        instances = checked(read_json(beside), _Instances, beside)
        pictures = {picture.id: picture for picture in instances.images}
        boxes = {instance.id: instance.bbox for instance in instances.annotations}
        for place, ref in enumerate(refs):
            if ref.split != split:
                continue
            where = f"{path}: {place}: ref {ref.ref_id}"
            for number, known, what in (
                (ref.image_id, pictures, "picture"),
                (ref.ann_id, boxes, "annotation"),
            ):
                if number not in known:
                    raise UsageError(
                        f"{where} names {what} {number}, which is not in {beside}: get both of one release"
                    )
            for sentence in ref.sentences:
                self._take(pictures[ref.image_id], sentence.sent, boxes[ref.ann_id], where)

    def _take_phrases(self, path: Path, phrases: _Phrases) -> None:
        boxes: Mapping[int, Bbox] = {box.image_id: box.bbox for box in phrases.annotations}
        for place, picture in enumerate(phrases.images):
            where = f"{path}: images.{place}"
            if picture.id not in boxes:
                raise UsageError(f"{where}: no annotation is about picture {picture.id}")
            self._take(picture, picture.caption, boxes[picture.id], where)

    def _take(self, picture: Picture, phrase: str, bbox: Bbox, where: str) -> None:
        box = clipped(bbox, picture.width, picture.height)
        if box is None:
            raise UsageError(f"{where}: the box {list(bbox)} lies outside its picture")
        self._pictures[picture.file_name] = picture
        self._examples[picture.file_name].append(grounding(_KIND, phrase, box))

    def _open(self, picture: Picture) -> Image:
        # These benchmarks are about COCO's training pictures of 2014, which lie in a folder of that name.
        folders = [self._folder, self._folder / "train2014"]
        return open_picture(find_picture([picture.file_name], folders), (picture.width, picture.height))


class _PlainUnpickler(pickle.Unpickler):
    """Reads lists, dicts, texts and numbers; a pickle that asks for anything else could run its code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds more than plain values: {module}.{name}")


def _read(path: Path) -> Any:
    if path.suffix not in (".p", ".pkl", ".pickle"):
        return read_json(path)
    try:
        return _PlainUnpickler(io.BytesIO(path.read_bytes()), encoding="latin-1").load()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # a broken pickle can raise anything
        raise UsageError(f"{path} cannot be read as a pickle: {error}") from error
