"""Many questions about one picture as one row of tokens.

A row is the prompt up to the picture's tokens, once, and then each question with its answer. A question sees
the prefix and itself, not its neighbours, and its positions go on from the prefix: so each is exactly what it
is alone, and the picture, which costs most, is read once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vlmopt.argus.errors import InputError
from vlmopt.argus.examples import Sample, Samples
from vlmopt.argus.modeling import IGNORED
from vlmopt.argus.processing import IMAGE, ArgusVLMProcessor
from vlmopt.argus.tokens import END

_MARK = "QUESTION"


class Packer:
    """Makes batches of samples: the collator of the trainer.

    A batch holds `pixel_values` [n, 3, S, S]; `input_ids`, `position_ids` and `labels` [n, tokens]; and
    `attention_mask` [n, 1, tokens, tokens], True where a token (third axis) sees another (fourth axis).
    """

    def __init__(self, processor: ArgusVLMProcessor) -> None:
        before, self._after = processor.prompt(_MARK).split(_MARK)
        self._processor = processor
        self._tokenizer = processor.tokenizer
        (self._prefix,) = self._encode([before.replace(IMAGE, IMAGE * processor.image_tokens)])
        self._end = self._tokenizer.convert_tokens_to_ids(END)

    def __call__(self, samples: Sequence[Sample]) -> dict[str, torch.Tensor]:
        """Packs all examples of all samples."""
        examples = [example for sample in samples for example in sample.examples]
        asked = self._encode([example.question + self._after for example in examples])
        told = self._encode([example.text(self._processor.boxes) for example in examples])
        turns = iter([(question, [*answer, self._end]) for question, answer in zip(asked, told, strict=True)])
        rows = [self._row([next(turns) for _ in sample.examples]) for sample in samples]
        pictures = [sample.image() for sample in samples]
        pixels = self._processor.image_processor(pictures, return_tensors="pt")["pixel_values"]
        return {"pixel_values": pixels, **self._stack(rows)}

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return list(self._tokenizer(texts, add_special_tokens=False)["input_ids"])

    def _row(self, turns: list[tuple[list[int], list[int]]]) -> dict[str, list[int]]:
        """Ids, labels, positions, and of each token the number of its question (0: the prefix)."""
        start = len(self._prefix)
        ids, labels = list(self._prefix), [IGNORED] * start
        positions, owners = list(range(start)), [0] * start
        for number, (question, answer) in enumerate(turns, 1):
            count = len(question) + len(answer)
            ids += question + answer
            labels += [IGNORED] * len(question) + answer
            positions += range(start, start + count)
            owners += [number] * count
        return {"input_ids": ids, "labels": labels, "position_ids": positions, "owners": owners}

    def _stack(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        fill = {"input_ids": self._tokenizer.pad_token_id, "labels": IGNORED, "position_ids": 0, "owners": -1}
        length = max(len(row["input_ids"]) for row in rows)
        stacked = {
            key: torch.tensor([row[key] + [value] * (length - len(row[key])) for row in rows])
            for key, value in fill.items()
        }
        owners = stacked.pop("owners")
        earlier = torch.ones(length, length, dtype=torch.bool).tril()
        own = owners[:, :, None] == owners[:, None, :]
        # Padding sees padding, so that no row of the mask is empty.
        mask = earlier & (own | (owners == 0)[:, None, :])
        return {**stacked, "attention_mask": mask[:, None]}


class TaskSamples(torch.utils.data.Dataset[Sample]):
    """Samples with only the examples of some tasks; a sample that has none gives way to the next that has.

    Raises:
        InputError: no sample has any, when the first one is read.
    """

    def __init__(self, samples: Samples, tasks: Sequence[str], most: int) -> None:
        self._samples = samples
        self._tasks = frozenset(tasks)
        self._most = most

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Sample:
        count = len(self._samples)
        for step in range(count):
            sample = self._samples[(index + step) % count]
            examples = [example for example in sample.examples if example.task in self._tasks]
            if examples:
                # Another part of many at each picture, the same one at each run.
                first = index % len(examples)
                chosen = (examples[first:] + examples[:first])[: self._most]
                return Sample(sample.name, sample.image, tuple(chosen))
        raise InputError(f"no sample has an example of {', '.join(sorted(self._tasks))}")
