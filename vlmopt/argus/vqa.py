"""Reads the files of the VQA challenge (version 1 or 2, open-ended; visualqa.org/vqa_v2_format.html).

The questions file: `{"data_subtype": "val2014", "questions": [{"image_id", "question", "question_id"}]}`.
The annotations file: `{"annotations": [{"question_id", "image_id", "question_type", "answer_type",
"multiple_choice_answer", "answers": [{"answer"}, ... ten people]}]}`.

Pictures have numbers only: `COCO_SUBTYPE_000000000042.jpg` in the folder or in its subfolder SUBTYPE, as COCO
names them, or `42.jpg` or `42.png`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from vlmopt.argus.annotations import Record, checked, find_picture, open_picture
from vlmopt.argus.examples import Example, Sample, vqa
from vlmopt.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image


class _Question(Record):
    image_id: int
    question: str
    question_id: int


class _Questions(Record):
    data_subtype: str = ""
    questions: list[_Question]


class _HumanAnswer(Record):
    answer: str


class _Annotation(Record):
    image_id: int
    question_id: int
    answer_type: str
    multiple_choice_answer: str
    answers: Annotated[list[_HumanAnswer], Field(min_length=1)]


class _Annotations(Record):
    annotations: list[_Annotation]


class VqaFiles:
    """The pictures of a questions file, in order of their ids, each with all its questions.

    An example's kind is VQA's answer type (`yes/no`, `number`, `other`), its answer the one that most people
    gave, its references the answers of all.

    Args:
        questions, annotations: what the two files hold, each after its path.
        images: the folder of the pictures.

    Raises:
        UsageError: a file lacks what VQA's format says, or a question has no annotation, or one about another
            picture; from `image()`, the picture is missing or cannot be read.
    """

    def __init__(
        self, questions_path: Path, questions: Any, annotations_path: Path, annotations: Any, images: Path
    ) -> None:
        asked = checked(questions, _Questions, questions_path)
        told = checked(annotations, _Annotations, annotations_path)
        known = {annotation.question_id: annotation for annotation in told.annotations}
        self._subtype = asked.data_subtype
        self._folders = [images, *([images / self._subtype] if self._subtype else [])]
        self._examples: dict[int, list[Example]] = defaultdict(list)
        for place, question in enumerate(asked.questions):
            number = question.question_id
            where = f"{questions_path}: questions.{place}: question {number}"
            if number not in known:
                raise UsageError(f"{where} has no annotation in {annotations_path}: give both of one split")
            annotation = known[number]
            if annotation.image_id != question.image_id:
                raise UsageError(
                    f"{where} is about picture {question.image_id}, "
                    f"its annotation in {annotations_path} about {annotation.image_id}"
                )
            people = tuple(answer.answer for answer in annotation.answers)
            self._examples[question.image_id].append(
                vqa(annotation.answer_type, question.question, annotation.multiple_choice_answer, people)
            )
        self._ids = sorted(self._examples)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Sample:
        number = self._ids[index]
        return Sample(str(number), partial(self._open, number), tuple(self._examples[number]))

    def _open(self, number: int) -> Image:
        coco = f"COCO_{self._subtype}_{number:012}.jpg"
        names = [*([coco] if self._subtype else []), f"{number}.jpg", f"{number}.png"]
        return open_picture(find_picture(names, self._folders))
