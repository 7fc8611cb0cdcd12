"""The held-out groundings of the study, and how well they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlmopt.argus import checkpoint
from vlmopt.argus.evaluation.in_transformers import Transformers
from vlmopt.argus.evaluation.questions import Question
from vlmopt.argus.evaluation.scoring import score
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor
from vlmopt.argus.scenes import Scenes
from vlmopt.argus.training.packing import TaskSamples

# Others than those that the shipped checkpoint is evaluated on, so that nothing is chosen by them.
_SEED = 1
# Tokens of an answer beyond those of the longest right one.
_SPARE = 4


class HeldOut:
    """One grounding of each of `count` held-out scenes, of the kinds in turn."""

    def __init__(self, count: int) -> None:
        samples = TaskSamples(Scenes("heldout", seed=_SEED, count=count), ["grounding"], 1)
        self.groundings = [
            Question(sample.name, sample.image, example)
            for sample in map(samples.__getitem__, range(count))
            for example in sample.examples
        ]

    def scores(
        self, model: ArgusVLMForConditionalGeneration, processor: ArgusVLMProcessor
    ) -> dict[str, float]:
        """The scores of an `argus_record.Point`, of greedy answers."""
        longest = max(_lengths(self.groundings, processor))
        answers = Transformers(model, processor, longest + _SPARE).answer(self.groundings)
        found = score(self.groundings, answers, processor.find_boxes, None).grounding
        assert found is not None
        return {
            "accuracy": found.accuracy.value,
            "mean_iou": found.mean_iou,
            "parse_failures": found.parse_failures / found.accuracy.count,
        }

    def facts(self, folder: Path) -> tuple[int, float]:
        """Of a trained model: how many parameters it has, and the mean number of tokens of a box."""
        model, processor = checkpoint.load(folder)
        lengths = _lengths(self.groundings, processor)
        return model.num_parameters(), sum(lengths) / len(lengths)


def _lengths(questions: Sequence[Question], processor: ArgusVLMProcessor) -> list[int]:
    """The tokens of each right answer, without the end."""
    texts = [question.example.text(processor.boxes) for question in questions]
    return [len(ids) for ids in processor.tokenizer(texts, add_special_tokens=False)["input_ids"]]
