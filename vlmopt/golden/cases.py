"""The requests whose outputs are written down: photographs and odd pictures, described in YAML."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from vlmopt import yamlfile
from vlmopt.errors import UsageError
from vlmopt.folders import golden_folder
from vlmopt.small import requests_of, small_of
from vlmopt.specs import Spec

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGES = "images"

Length = Annotated[int, Field(ge=1)]


class Picture(BaseModel):
    """How a picture is made: the same pixels everywhere, with integer arithmetic alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    photo: str | None = None
    noise: Annotated[int, Field(ge=0)] | None = None
    size: tuple[Length, Length] | None = None
    crop: tuple[int, int, int, int] | None = None
    mode: Literal["RGB", "L"] = "RGB"
    alpha: bool = False

    @model_validator(mode="after")
    def _photo_or_noise(self) -> Picture:
        if (self.photo is None) == (self.noise is None) or (self.noise is None) != (self.size is None):
            raise ValueError("a picture is `photo`, or `noise` (its seed) with `size`")
        return self

    def open(self, folder: Path) -> Image:
        """The picture; photographs are read from `folder`/images."""
        import numpy as np
        from PIL import Image

        if self.photo is not None:
            with Image.open(folder / IMAGES / self.photo) as file:
                image = file.convert("RGB")
        else:
            assert self.size is not None
            width, height = self.size
            pixels = np.random.default_rng(self.noise).integers(0, 256, (height, width, 3), np.uint8)
            image = Image.fromarray(pixels)
        if self.crop:
            image = image.crop(self.crop)
        if self.alpha:
            image.putalpha(image.convert("L"))
        return image if self.mode == "RGB" else image.convert(self.mode)


class _Asked(BaseModel):
    """One case in a file: its pictures, and a prompt where it is not the model's usual one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pictures: list[Picture] = []
    prompt: Annotated[str | None, Field(pattern=r"\{images\}")] = None


class _Cases(RootModel[dict[str, _Asked]]):
    pass


@dataclass(frozen=True)
class Case:
    """One request. The third party's prompt may have another placeholder than vLLM's."""

    name: str
    prompt: str
    third_party_prompt: str
    images: tuple[Image, ...]

    def digests(self) -> list[str]:
        """The SHA-256 of each picture's mode, size and pixels."""
        return [
            hashlib.sha256(f"{image.mode} {image.size} ".encode() + image.tobytes()).hexdigest()
            for image in self.images
        ]


def cases_of(spec: Spec, folder: Path | None = None) -> list[Case]:
    """The cases of a model, with their pictures opened.

    Raises:
        UsageError: the file of cases is malformed.
    """
    folder = folder or golden_folder()
    requests, small = requests_of(spec), small_of(spec)
    document = yamlfile.load(folder / small.golden.cases, UsageError)
    theirs = small.third_party.image or requests.image

    def case_of(name: str, asked: _Asked) -> Case:
        prompt, count = asked.prompt or requests.prompt, len(asked.pictures)
        return Case(
            name,
            prompt.replace("{images}", requests.image * count),
            prompt.replace("{images}", theirs * count),
            tuple(picture.open(folder) for picture in asked.pictures),
        )

    asked = yamlfile.validate(document, _Cases, UsageError).root
    return [case_of(name, each) for name, each in asked.items()]
