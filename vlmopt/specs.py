"""The model spec: the facts of one model, in `model_specs/NAME.yaml`.

A spec holds no instructions. Rules read its facts as `${model.class}`, `${images}` and so on, and ask for
them in `when`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, model_validator

from vlmopt import yamlfile
from vlmopt.errors import SpecError, UsageError
from vlmopt.folders import specs_folder
from vlmopt.treepath import VLLM, package_of, tree_path

SpecName = Annotated[str, Field(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$")]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Module = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
Distribution = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
HubId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]

_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FromProcessor(_Facts):
    """A value that the runtime reads from the Hugging Face processor when the model is served."""

    attribute: Annotated[
        str,
        Field(
            pattern=f"^{_ATTRIBUTE.pattern}$",
            description="Dotted path from the Hugging Face processor, e.g. image_processor.size.",
        ),
    ]


def _literal_or_attribute(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        FromProcessor.model_validate(value)
    return value


def _regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


Parameter = Annotated[
    JsonValue,
    AfterValidator(_literal_or_attribute),
    Field(description="A literal, or {attribute: dotted.path} to read it from the Hugging Face processor."),
]


def _in_its_package(path: str) -> str:
    return tree_path(path, (package_of(path),))


ModulePath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*/.+\.py$"), AfterValidator(_in_its_package)]


class Plugin(_Facts):
    """The package outside of vLLM that the model comes from.

    It registers the model with vLLM through the entry point `vllm.general_plugins`, and the fork overlays it
    beside vLLM.
    """

    package: Annotated[Identifier, Field(description="Its top-level package.")]
    distribution: Annotated[
        Distribution | None, Field(description="The name that it is installed under, if not the package's.")
    ] = None

    @model_validator(mode="after")
    def _is_outside_of_vllm(self) -> Plugin:
        if self.package == VLLM:
            raise ValueError("package is vllm itself; leave plugin out for a model of vLLM's own")
        return self

    @property
    def installed_as(self) -> str:
        """The name of its distribution."""
        return self.distribution or self.package


class ModelFacts(BaseModel):
    """Where the model stands in the source. Further facts may be added; rules read them as `${model.KEY}`."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)
    __pydantic_extra__: dict[str, JsonValue]

    module: Annotated[ModulePath, Field(description="File of the model class.")]
    class_: Annotated[Identifier, Field(alias="class", description="The model class.")]
    processor_module: Annotated[ModulePath, Field(description="File of the multimodal processor class.")]
    processor_class: Annotated[Identifier, Field(description="The multimodal processor class.")]


class Placeholder(_Facts):
    """How the prompt's image placeholder is found and replaced."""

    target: Annotated[
        Literal["text", "token"],
        Field(description="What vLLM searches for in the prompt: a text, or one token id."),
    ]


class Geometry(StrEnum):
    """How an image becomes the tensors of the tower. `unknown`: the stock processor does it."""

    tile_grid = "tile-grid"
    split_global = "split-global"
    edge_crop = "edge-crop"
    patch_grid = "patch-grid"
    fixed = "fixed"
    unknown = "unknown"


class Output(StrEnum):
    """What one tensor of the image processor's result holds."""

    pixels = "pixels"
    mask = "mask"
    tile_count = "tile-count"
    grid_thw = "grid-thw"


class Images(_Facts):
    """What the runtime needs to rebuild the processor's tensors."""

    geometry: Annotated[Geometry, Field(description="The family of the image processor's geometry.")]
    library: Annotated[
        Literal["pillow", "torchvision"] | None, Field(description="The library that stock resizes with.")
    ] = None
    convert: Annotated[
        Literal["before-resize", "after-resize"] | None, Field(description="When stock converts to RGB.")
    ] = None
    resizes: Annotated[
        Literal["single", "chained"], Field(description="One resize an image, or one after another.")
    ] = "single"
    resample: Annotated[
        Parameter | None, Field(description="The resampling filter, or the attribute that holds it.")
    ] = None
    parameters: Annotated[
        dict[Identifier, Parameter], Field(description="The geometry's parameters, by their names.")
    ] = Field(default_factory=dict)
    outputs: Annotated[
        dict[Identifier, Output], Field(description="The image processor's tensors, and what each holds.")
    ] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known_geometry_is_complete(self) -> Images:
        if self.geometry is not Geometry.unknown:
            missing = [key for key in ("library", "convert", "resample") if getattr(self, key) is None]
            missing += [] if self.outputs else ["outputs"]
            if missing:
                raise ValueError(f"geometry {self.geometry.value} also needs {', '.join(missing)}")
        return self


class Requests(_Facts):
    """What a request to the model looks like; verification makes its prompts from it."""

    image: Annotated[str, Field(min_length=1, description="What stands for one image in a prompt.")]
    prompt: Annotated[str, Field(description="A whole prompt; {images} is where the images go.")]
    processor_kwargs: Annotated[
        list[dict[str, JsonValue]], Field(description="mm_processor_kwargs that a request may bring.")
    ] = Field(default_factory=list)

    @model_validator(mode="after")
    def _prompt_has_a_place_for_images(self) -> Requests:
        if self.prompt.count("{images}") != 1:
            raise ValueError("prompt needs {images} exactly once")
        return self

    def prompt_for(self, images: int) -> str:
        """The prompt for a number of images, one directly after the other."""
        return self.prompt.replace("{images}", self.image * images)


Pattern = Annotated[str, AfterValidator(_regular_expression)]


class Renaming(_Facts):
    """How a tensor of one checkpoint layout is called in another."""

    from_: Annotated[Pattern, Field(alias="from", description="A regular expression, searched in the name.")]
    to: Annotated[str, Field(description="What takes the place of the match; \\1 is its first group.")]


class Gain(_Facts):
    """A factor for the values of some tensors."""

    names: Annotated[Pattern, Field(description="A regular expression, searched in the name.")]
    factor: float


class Weights(_Facts):
    """Seeded weights: matrices N(0, 1 / fan in), embeddings N(0, 1), norms near 1, biases near 0."""

    seed: Annotated[
        int, Field(ge=0, description="With a tensor's name and shape it decides every value.")
    ] = 0
    gains: Annotated[list[Gain], Field(description="Exceptions; the first that matches counts.")] = Field(
        default_factory=list
    )


class Differs(_Facts):
    """A stage of the golden outputs from which on stock differs from the third party, and the reason."""

    stage: Annotated[
        Literal[
            "prompt token ids", "vision tower inputs", "image embeddings", "logits", "greedy tokens", "answer"
        ],
        Field(description="The first stage that differs; those that follow from it need no reason."),
    ]
    cases: Annotated[list[str] | None, Field(description="Which cases; all if not given.")] = None
    why: Annotated[str, Field(min_length=1, description="The reason; the golden outputs carry it.")]


class ThirdParty(_Facts):
    """How transformers' own implementation of the model is loaded, where it differs from the small folder."""

    model: Annotated[Identifier, Field(description="The class in transformers that loads the model.")] = (
        "AutoModelForImageTextToText"
    )
    files: Annotated[
        str | None, Field(description="Folder of its own configuration, where it cannot read the hub's.")
    ] = None
    names: Annotated[
        list[Renaming],
        Field(
            description="From its checkpoint's tensors to the hub's; the first that matches counts, and "
            "those that get one name are joined in the order of this list."
        ),
    ] = Field(default_factory=list)
    image: Annotated[
        str | None, Field(description="What stands for one image in its prompts, if not requests.image.")
    ] = None
    outputs: Annotated[
        dict[Identifier, Output],
        Field(description="Its processor's tensors and what each holds, if not as in images.outputs."),
    ] = Field(default_factory=dict)
    imports: Annotated[
        Module | None,
        Field(description="A module that makes the model known to transformers when it is imported."),
    ] = None
    differs: Annotated[
        list[Differs],
        Field(description="Why stock's outputs are not its own; the first that fits counts."),
    ] = Field(default_factory=list)


class GoldenFacts(_Facts):
    """What the golden outputs hold of the model."""

    cases: Annotated[str, Field(description="The file in golden_outputs that says what is asked.")] = (
        "cases.yaml"
    )
    tokens: Annotated[int, Field(ge=1, description="The length of an answer.")] = 6
    whole: Annotated[
        bool,
        Field(
            description="For trained weights: an answer ends where the model ends it, and its text and boxes "
            "are held too."
        ),
    ] = False


class AddedToken(_Facts):
    """A token that the model adds to the vocabulary of its tokenizer, or a row of numbered ones."""

    token: Annotated[str, Field(min_length=1, description="Its text; of a row, with {} for the number.")]
    count: Annotated[int | None, Field(ge=1, description="How many there are, numbered from 0.")] = None
    special: Annotated[bool, Field(description="Whether decoding may leave it out.")] = False

    @property
    def texts(self) -> list[str]:
        """The token, or all of its row."""
        return [self.token] if self.count is None else [self.token.format(n) for n in range(self.count)]


class Small(_Facts):
    """A small model folder: geometry, tokenizer and placeholders of the model, towers shrunk, seeded weights.

    Paths are relative to the spec's file. A model that is small itself names its own checkpoint instead.
    """

    checkpoint: Annotated[
        str | None,
        Field(description="Folder in the plug-in's package, PACKAGE/..., taken as it is, with weights."),
    ] = None
    files: Annotated[
        str | None, Field(description="Folder of the files that are copied; NAME.txt becomes NAME.")
    ] = None
    tokenizer: Annotated[str | None, Field(description="tokenizer.json, packed with xz.")] = None
    adds: Annotated[
        list[AddedToken], Field(description="What the tokenizer lacks, in the order in which it is added.")
    ] = Field(default_factory=list)
    trust_remote_code: Annotated[
        bool, Field(description="Whether the folder's own Python must be run to load its configuration.")
    ] = False
    weights: Weights = Field(default_factory=Weights)
    third_party: ThirdParty = Field(default_factory=ThirdParty)
    golden: GoldenFacts = Field(default_factory=GoldenFacts)

    @model_validator(mode="after")
    def _is_made_or_there(self) -> Small:
        if self.checkpoint is None and (self.files is None or self.tokenizer is None):
            raise ValueError("small needs files and tokenizer, or a checkpoint")
        made = self.files or self.tokenizer or self.adds or self.third_party.files
        if self.checkpoint is not None and made:
            raise ValueError("small has a checkpoint; files, tokenizer and adds are of a folder that is made")
        return self


class Spec(_Facts):
    """The facts of one model."""

    name: Annotated[SpecName, Field(description="The file's name without .yaml.")]
    title: Annotated[str, Field(min_length=1, description="The name that people know the model by.")]
    architecture: Annotated[Identifier, Field(description="Key in vLLM's model registry.")]
    hub: Annotated[list[HubId], Field(description="Hub ids that this spec answers to.")] = Field(
        default_factory=list
    )
    parameters: Annotated[
        float | None, Field(gt=0, description="Number of weights, for the FP8 cost report.")
    ] = None
    plugin: Plugin | None = None
    model: ModelFacts
    placeholder: Placeholder | None = None
    images: Images
    requests: Requests | None = None
    small: Small | None = None

    _document: yamlfile.Document | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _modules_are_in_named_packages(self) -> Spec:
        for path in (self.model.module, self.model.processor_module):
            package = package_of(path)
            if package not in self.packages:
                raise ValueError(
                    f"model: {path} is outside of vLLM; name its package: plugin: {{package: {package}}}"
                )
        checkpoint = self.small.checkpoint if self.small else None
        if checkpoint is not None and package_of(checkpoint) not in self.packages[1:]:
            raise ValueError(f"small.checkpoint: {checkpoint} is not in a plug-in's package, PACKAGE/...")
        return self

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that its modules may be in, vLLM's first."""
        return (VLLM, self.plugin.package) if self.plugin else (VLLM,)

    @property
    def path(self) -> Path | None:
        """The file that the spec was read from; None for a spec made in memory."""
        return self._document.path if self._document else None

    @property
    def sha256(self) -> str:
        """Of the file's bytes; of the canonical JSON for a spec made in memory."""
        if self._document:
            return self._document.sha256
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()

    def facts(self) -> dict[str, Any]:
        """Plain data under the YAML's own keys, facts that are not given left out; this is what rules see."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def where(self, *location: str) -> str:
        """`file:line` of one fact, for messages; the spec's name for a spec made in memory."""
        return self._document.where(location) if self._document else f"spec {self.name}"


def read_spec(path: Path) -> Spec:
    """Reads one spec file.

    Raises:
        SpecError: with file and line, for everything that can be wrong with it.
    """
    document = yamlfile.load(path, SpecError)
    spec = yamlfile.validate(document, Spec, SpecError)
    spec._document = document
    return spec


def list_specs(folder: Path | None = None) -> list[Spec]:
    """All specs of a folder (by default those that come with vlmopt), by name.

    Raises:
        SpecError: when one is malformed, or two claim the same hub id.
    """
    specs = []
    claimed: dict[str, Spec] = {}
    for path in sorted((folder or specs_folder()).glob("*.yaml")):
        spec = read_spec(path)
        if spec.name != path.stem:
            raise SpecError(f"{spec.where('name')}: name is {spec.name!r}, but the file is {path.name}")
        for hub in spec.hub:
            if hub.lower() in claimed:
                other = claimed[hub.lower()]
                raise SpecError(f"{spec.where('hub')}: {hub} is already claimed by {other.where('hub')}")
            claimed[hub.lower()] = spec
        specs.append(spec)
    return specs


def load_spec(model: str, folder: Path | None = None) -> Spec:
    """Finds the spec that `model` means: a path to a YAML file, a spec's name, or a hub id that one claims.

    Raises:
        UsageError: no spec answers to it; the message names the nearest.
        SpecError: the spec is malformed.
    """
    if model.endswith((".yaml", ".yml")):
        return read_spec(Path(model))
    folder = folder or specs_folder()
    if re.fullmatch(r"[\w.-]+", model) and (folder / f"{model}.yaml").is_file():
        return read_spec(folder / f"{model}.yaml")
    specs = list_specs(folder)
    for spec in specs:
        if model.lower() == spec.name or model.lower() in (hub.lower() for hub in spec.hub):
            return spec
    known = [spec.name for spec in specs] + [hub for spec in specs for hub in spec.hub]
    near = difflib.get_close_matches(model, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "`vlmopt models list` shows those there are"
    raise UsageError(f"no model spec answers to {model!r}; {hint}")
