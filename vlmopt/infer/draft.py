"""A drafted spec: what the code states, and marks where a person has to fill in the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from vlmopt.errors import SpecError
from vlmopt.infer.facts import IMAGE_MODALITIES, Field, Target
from vlmopt.mistakes import first_mistake
from vlmopt.specs import Output, Spec

_COLUMN = 34


@dataclass(frozen=True)
class Draft:
    """The facts of one architecture that static analysis found in a tree.

    Attributes:
        rivals: other definitions of the model class, where a package picks one by platform.
        processor_rivals: other processor classes that a builder function may pick.
        fields: the tensors of the batch, of every modality.
        targets: what the prompt is searched for; more than one when it depends on the checkpoint.
        hf_processor: dotted name of the Hugging Face processor's class; None when the checkpoint decides.
    """

    architecture: str
    vllm: str
    module: str
    class_name: str
    processor_module: str
    processor_class: str
    rivals: tuple[str, ...]
    processor_rivals: tuple[str, ...]
    fields: tuple[Field, ...]
    targets: tuple[Target, ...]
    hf_processor: str | None

    @property
    def image_fields(self) -> tuple[Field, ...]:
        """The fields that images fill."""
        return tuple(field for field in self.fields if _of_images(field))

    @property
    def outputs(self) -> dict[str, Output]:
        """The image fields whose name tells what they hold."""
        roles = {field.name: _role(field.name) for field in self.image_fields}
        return {name: role for name, role in roles.items() if role is not None}

    @property
    def placeholder(self) -> str | None:
        """`text` or `token` when the code agrees on one of them, else None."""
        kinds = {"token" if target.kind == "tokens" else target.kind for target in self.targets}
        kind = kinds.pop() if len(kinds) == 1 else None
        return kind if kind in ("text", "token") else None

    def spec(self) -> Spec:
        """The draft as a spec of geometry `unknown`: enough to plan with, no promise about a checkpoint.

        Raises:
            SpecError: the code uses a name that no spec can hold.
        """
        data: dict[str, Any] = {
            "name": _slug(self.architecture),
            "title": self.architecture,
            "architecture": self.architecture,
            "model": {
                "module": self.module,
                "class": self.class_name,
                "processor_module": self.processor_module,
                "processor_class": self.processor_class,
            },
            "images": {"geometry": "unknown", "outputs": {k: v.value for k, v in self.outputs.items()}},
        }
        if self.placeholder:
            data["placeholder"] = {"target": self.placeholder}
        try:
            return Spec.model_validate(data)
        except ValidationError as error:
            place, wrong = first_mistake(error)
            raise SpecError(f"{self.architecture} of vLLM {self.vllm}: {place}: {wrong}") from None

    def gaps(self) -> list[str]:
        """What a person has to fill in or look at, one sentence each."""
        gaps = ["name, title, hub and parameters: those of the checkpoint"]
        gaps.append("images: geometry, library, convert and resample, as the image processor has them")
        if self.rivals:
            also = ", ".join(self.rivals)
            gaps.append(f"model.module: the class is picked by platform; it is also in {also}")
        if self.processor_rivals:
            gaps.append(
                "model.processor_class: picked when the model is loaded; "
                f"it may also be {', '.join(self.processor_rivals)}"
            )
        if self.placeholder is None:
            gaps.append(f"placeholder.target: {self._why_no_placeholder()}")
        if Output.pixels not in self.outputs.values():
            gaps.append("images.outputs: no field looks like pixels")
        return gaps

    def _why_no_placeholder(self) -> str:
        if not self.targets:
            return "no prompt update for images was found"
        if {target.kind for target in self.targets} == {"place"}:
            return "images stand at a fixed place; nothing is searched for"
        places = "; ".join(f"{t.path}:{t.line} has {t.source}" for t in self.targets)
        return f"the code does not settle it: {places}"

    def yaml(self) -> str:
        """The draft as a spec file, `# fill in:` marking what a person has to decide."""
        lines = [
            f"# Drafted from the code of vLLM {self.vllm}. Fill in what is marked, then see what applies:",
            "# vlmopt apply --model FILE.yaml",
            _line("name: " + _slug(self.architecture), "fill in: a short name, the same as the file's"),
            _line("title: " + self.architecture, "fill in: the name that people know the model by"),
            f"architecture: {self.architecture}",
            _line("hub: []", "fill in: the hub ids that this spec answers to"),
            _line("# parameters: 1.0e9", "fill in: the number of weights"),
            "model:",
            _line(f"  module: {self.module}", self._mark_rivals()),
            f"  class: {self.class_name}",
            f"  processor_module: {self.processor_module}",
            _line(f"  processor_class: {self.processor_class}", self._mark_processor_rivals()),
            *self._placeholder_lines(),
            "images:",
            _line("  geometry: unknown", "fill in: the family; with `unknown` the stock processor stays"),
            _line("  # library: pillow", "fill in: pillow | torchvision"),
            _line("  # convert: before-resize", "fill in: before-resize | after-resize"),
            _line("  # resample: bicubic", "fill in: or {attribute: image_processor.resample}"),
            *self._output_lines(),
        ]
        processor = self.hf_processor or "the one that the checkpoint names (AutoProcessor)"
        lines.append(f"# Hugging Face processor: {processor}")
        return "\n".join(lines) + "\n"

    def _mark_rivals(self) -> str:
        return f"fill in: this or {', '.join(self.rivals)}, by platform" if self.rivals else ""

    def _mark_processor_rivals(self) -> str:
        return f"fill in: this or {', '.join(self.processor_rivals)}" if self.processor_rivals else ""

    def _placeholder_lines(self) -> list[str]:
        if self.placeholder is None:
            return [f"# placeholder: {{target: token}}  # fill in: {self._why_no_placeholder()}"]
        target = self.targets[0]
        mark = f"{target.path}:{target.line}: {target.source}"
        if target.kind == "tokens":
            mark = f"fill in: several ids are searched for; {mark}"
        return ["placeholder:", _line(f"  target: {self.placeholder}", mark)]

    def _output_lines(self) -> list[str]:
        rest = [field.name for field in self.image_fields if field.name not in self.outputs]
        lines = [f"    {name}: {role.value}" for name, role in self.outputs.items()]
        empty = _line("  outputs: {}", "fill in: no field looks like pixels")
        lines = ["  outputs:", *lines] if lines else [empty]
        return [*lines, *([f"    # also in the batch: {', '.join(rest)}"] if rest else [])]


def _of_images(field: Field) -> bool:
    if field.modality is None:
        return "video" not in field.name and "audio" not in field.name
    return field.modality in IMAGE_MODALITIES


def _role(name: str) -> Output | None:
    """What a field of this name holds, by the names that Hugging Face processors use."""
    if "mask" in name:
        return Output.mask
    if "pixel_values" in name or name == "images":
        return Output.pixels
    if name.endswith(("grid_thw", "grid_thws")):
        return Output.grid_thw
    if re.search(r"num_(patches|tiles|crops)$", name):
        return Output.tile_count
    return None


def _slug(architecture: str) -> str:
    stem = re.sub(r"(?<=.)For[A-Z].*$", "", architecture)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", stem)
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _line(text: str, comment: str) -> str:
    return f"{text:<{_COLUMN}}  # {comment}" if comment else text
