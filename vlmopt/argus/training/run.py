"""Runs one stage of training."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from vlmopt.argus import checkpoint
from vlmopt.argus.boxes import BoxFormat, CodebookFormat, load_format
from vlmopt.argus.build import build_model, build_processor
from vlmopt.argus.coco import CocoFolder
from vlmopt.argus.errors import InputError
from vlmopt.argus.examples import Samples
from vlmopt.argus.family import Member, Stage, load_member
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor
from vlmopt.argus.scenes import Scenes
from vlmopt.argus.training.folder import RunFolder, record_of
from vlmopt.argus.training.optimizer import MuonAndAdamW
from vlmopt.argus.training.packing import Packer, TaskSamples

Progress = Callable[[str, int, int], None]
EachStep = Callable[[int, ArgusVLMForConditionalGeneration, ArgusVLMProcessor], None]
"""Called after each step with its number, the model in training mode, and the processor."""
_MOST_EXAMPLES = 16
_REPORTS = 100
_WEIGHT_DECAY = 0.01
_CODEBOOK_SAMPLES = 2000


@dataclass(frozen=True)
class Options:
    """What a training run is asked for; None takes what the member's recipe says.

    Attributes:
        member: a name or a YAML file.
        number: the stage, 1 or 2.
        out: the folder that the trained model is written to.
        start: the folder of a checkpoint to go on from; None begins anew, or from `vision` and `language`.
        data: `scenes`, or FOLDER:SPLIT in COCO's layout.
        form: the name of another box format than the member's; only where nothing is started from. A codebook
            is learnt from the boxes of the data.
        threads: of the processor; None leaves them to torch. Another number may give other weights.
        resume: go on with a run that was broken off, from its last saved step.
    """

    member: str
    number: int
    out: Path
    start: Path | None = None
    data: str = "scenes"
    steps: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    seed: int = 0
    save_every: int = 500
    form: str | None = None
    tokenizer: Path | None = None
    vision: Path | None = None
    language: Path | None = None
    threads: int | None = None
    resume: bool = False

    def asked(self) -> dict[str, Any]:
        """All that the weights depend on, as JSON."""
        kept = {key: value for key, value in asdict(self).items() if key not in ("out", "resume")}
        return {key: str(value) if isinstance(value, Path) else value for key, value in kept.items()}


@dataclass(frozen=True)
class Result:
    """What a run did. `losses` are (step, mean loss since the last one); `seconds` are of this run alone."""

    out: Path
    stage: int
    steps: int
    seconds: float
    losses: tuple[tuple[int, float], ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON, the folder as a text."""
        return {**asdict(self), "out": str(self.out), "seconds": round(self.seconds, 1)}

    def summary(self) -> str:
        """One line: how long, how the loss fell, where the model is."""
        fall = f"loss {self.losses[0][1]:.3f} to {self.losses[-1][1]:.3f}, " if self.losses else ""
        return f"Stage {self.stage}: {self.steps} steps in {self.seconds:.0f} s, {fall}saved in {self.out}"


def train(
    options: Options,
    progress: Progress = lambda what, done, total: None,
    each_step: EachStep | None = None,
) -> Result:
    """Trains, saves model and processor in `out`, and beside them what was done in `training.json`.

    The same options give the same weights on the same machine, also when the run was broken off and resumed.
    `each_step` must leave the model's weights and mode, and torch's random numbers, as they were.

    Raises:
        InputError: the options do not go together, or the data or the checkpoint cannot be read.
    """
    member = load_member(options.member)
    stage = _stage(member, options)
    folder = RunFolder(options.out, {"options": options.asked(), "recipe": stage.model_dump(mode="json")})
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    samples = _samples(options, stage)
    if options.start is None:
        form = None if options.form is None else _form(options.form, samples)
        processor = build_processor(member, tokenizer=options.tokenizer, form=form)
        model = build_model(
            member, processor, seed=options.seed, vision=options.vision, language=options.language
        )
    else:
        model, processor = checkpoint.load(options.start)
    before = None if options.start is None else record_of(options.start)
    for name, weight in model.named_parameters():
        weight.requires_grad_(stage.learns == "all" or name.startswith("model.projector."))
    # None is the trainer's own AdamW, and its own cosine.
    optimizer = (
        MuonAndAdamW(model, learning_rate=stage.learning_rate, weight_decay=_WEIGHT_DECAY)
        if stage.optimizer == "muon"
        else None
    )
    trainer = Trainer(
        model=model.train(),
        args=_arguments(options, stage, folder.checkpoints),
        train_dataset=TaskSamples(samples, stage.tasks, _MOST_EXAMPLES),
        data_collator=Packer(processor),
        optimizers=(optimizer, None),
        callbacks=[_Watcher(progress, processor, each_step)],
    )
    # Results go to stdout, and only those.
    trainer.remove_callback(PrinterCallback)
    state = folder.begin(resume=options.resume)
    began = time.monotonic()
    trainer.train(resume_from_checkpoint=None if state is None else str(state))
    seconds = time.monotonic() - began
    losses = tuple(
        (entry["step"], round(entry["loss"], 4)) for entry in trainer.state.log_history if "loss" in entry
    )
    model.eval().save_pretrained(options.out)
    processor.save_pretrained(options.out)
    result = Result(options.out, options.number, trainer.state.global_step, seconds, losses)
    folder.finish(steps=result.steps, seconds=seconds, losses=losses, before=before)
    return result


def _stage(member: Member, options: Options) -> Stage:
    """The member's recipe with what the options change."""
    if options.number not in member.training:
        raise InputError(f"{member.name} is trained in stages 1 and 2, not {options.number}")
    if options.start is not None and (
        options.form or options.tokenizer or options.vision or options.language
    ):
        raise InputError("a checkpoint brings its own parts: no box format, tokenizer or weights beside it")
    changed = {"steps": options.steps, "batch": options.batch, "learning_rate": options.learning_rate}
    for name, value in changed.items():
        if value is not None and value <= 0:
            raise InputError(f"{name.replace('_', ' ')} {value}: it must be above 0")
    given = {name: value for name, value in changed.items() if value is not None}
    return member.training[1 if options.number == 1 else 2].model_copy(update=given)


def _samples(options: Options, stage: Stage) -> Samples:
    if options.data == "scenes":
        # As many as are needed, so that none is seen twice; the two stages see different ones.
        return Scenes("train", seed=1000 * options.number + options.seed, count=stage.steps * stage.batch)
    folder, colon, split = options.data.rpartition(":")
    if not colon or not folder or not split:
        raise InputError(
            f"data {options.data!r}: give `scenes`, or FOLDER:SPLIT of a folder in COCO's layout"
        )
    return CocoFolder(Path(folder), split)


def _form(name: str, samples: Samples) -> BoxFormat:
    if name != CodebookFormat.name:
        return load_format({"name": name})
    some = (samples[index] for index in range(min(len(samples), _CODEBOOK_SAMPLES)))
    boxes = [box for sample in some for example in sample.examples for box in example.boxes]
    return CodebookFormat.learn(boxes)


def _arguments(options: Options, stage: Stage, saved: Path) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(saved),
        max_steps=stage.steps,
        per_device_train_batch_size=stage.batch,
        learning_rate=stage.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=max(stage.steps // 20, 1),
        weight_decay=_WEIGHT_DECAY,
        max_grad_norm=1.0,
        seed=options.seed,
        logging_steps=max(stage.steps // _REPORTS, 1),
        save_steps=options.save_every,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
    )


class _Watcher(TrainerCallback):
    """Tells how far a run is, and lets others look at the model on the way."""

    def __init__(self, progress: Progress, processor: ArgusVLMProcessor, each_step: EachStep | None) -> None:
        self._progress = progress
        self._processor = processor
        self._each_step = each_step
        self._loss = ""

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        if logs and "loss" in logs:
            self._loss = f"loss {logs['loss']:.3f}"

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._each_step is not None:
            self._each_step(state.global_step, kwargs["model"], self._processor)
        self._progress(self._loss, state.global_step, state.max_steps)
