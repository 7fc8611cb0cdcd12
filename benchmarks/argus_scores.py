"""The held-out questions of the study, and how well they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlmopt.argus import checkpoint
from vlmopt.argus.evaluation.in_transformers import Transformers
from vlmopt.argus.evaluation.questions import Question
from vlmopt.argus.evaluation.scoring import score
from vlmopt.argus.examples import Task
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor
from vlmopt.argus.scenes import Scenes
from vlmopt.argus.training.packing import TaskSamples

# Others than those that the shipped checkpoint is evaluated on, so that nothing is chosen by them.
_SEED = 1
# Tokens of an answer beyond those of the longest right one.
_SPARE = 4


class HeldOut:
    """`count` groundings and as many questions, one of each about each of `count` held-out scenes."""

    def __init__(self, count: int) -> None:
        scenes = Scenes("heldout", seed=_SEED, count=count)
        self.groundings = _questions(scenes, "grounding")
        self._questions = [*self.groundings, *_questions(scenes, "vqa")]

    def scores(
        self, model: ArgusVLMForConditionalGeneration, processor: ArgusVLMProcessor
    ) -> dict[str, float]:
        """The scores of an `argus_record.Point`, of greedy answers."""
        longest = max(_lengths(self._questions, processor))
        answers = Transformers(model, processor, longest + _SPARE).answer(self._questions)
        scores = score(self._questions, answers, processor.find_boxes, None)
        assert scores.vqa is not None
        assert scores.grounding is not None
        found = scores.grounding
        return {
            "accuracy": found.accuracy.value,
            "mean_iou": found.mean_iou,
            "parse_failures": found.parse_failures / found.accuracy.count,
            "vqa": scores.vqa.value,
        }

    def facts(self, folder: Path) -> tuple[int, float]:
        """Of a trained model: how many parameters it has, and the mean number of tokens of a box."""
        model, processor = checkpoint.load(folder)
        lengths = _lengths(self.groundings, processor)
        return model.num_parameters(), sum(lengths) / len(lengths)


def _questions(scenes: Scenes, task: Task) -> list[Question]:
    """One of each scene, of the kinds in turn."""
    samples = TaskSamples(scenes, [task], 1)
    return [
        Question(sample.name, sample.image, example)
        for sample in map(samples.__getitem__, range(len(scenes)))
        for example in sample.examples
    ]


def _lengths(questions: Sequence[Question], processor: ArgusVLMProcessor) -> list[int]:
    """The tokens of each right answer, without the end."""
    texts = [question.example.text(processor.boxes) for question in questions]
    return [len(ids) for ids in processor.tokenizer(texts, add_special_tokens=False)["input_ids"]]
