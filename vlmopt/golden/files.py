"""The file of one model's golden outputs, `golden_outputs/NAME.json`."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from vlmopt.errors import EquivalenceError, UsageError
from vlmopt.golden.outputs import Output, Stage
from vlmopt.mistakes import first_mistake
from vlmopt.whole import write_whole

_NUMBERS = re.compile(r"\[[-+\d.eE,\s]+\]")  # a list of numbers goes on one line


class GoldenCase(BaseModel):
    """One case: vLLM's prompt, the digests of its pictures, and the third party's output.

    `stock` is what stock vLLM gives where that is another output; None where both agree within `TOLERANCE`.
    `apart` then has the distance of the stages that differ, and `why` the reason for the first of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    prompt: str
    pictures: list[str]
    third_party: Output
    stock: Output | None = None
    apart: dict[Stage, float] = {}
    why: str | None = None


class Golden(BaseModel):
    """The golden outputs of one model, with all that they were made of."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    model: str
    versions: dict[str, str]
    vllm: str
    seed: int
    weights: dict[str, str]
    cases: dict[str, GoldenCase]

    def text(self) -> str:
        """The file's text; the same outputs give the same bytes. `sha256` is of everything else."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        content = {"format": self.format, **content}
        text = json.dumps({"sha256": _digest(content), **content}, ensure_ascii=False, indent=1)
        return _NUMBERS.sub(lambda match: " ".join(match[0].split()), text) + "\n"


def golden_path(folder: Path, model: str) -> Path:
    """Where the golden outputs of a model lie."""
    return folder / f"{model}.json"


def read_golden(folder: Path, model: str) -> Golden:
    """Reads the golden outputs of a model.

    Raises:
        UsageError: there are none, or the file is malformed.
        EquivalenceError: the file was changed after it was recorded.
    """
    path = golden_path(folder, model)
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        digest = content.pop("sha256")
        golden = Golden.model_validate(content)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: run `vlmopt golden record --model {model}` first") from None
    except ValidationError as error:
        where, wrong = first_mistake(error)
        raise UsageError(f"{path} is no file of golden outputs: {where}: {wrong}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no file of golden outputs: {error}") from None
    if golden.model != model:
        raise UsageError(f"{path} holds the golden outputs of {golden.model}")
    if digest != _digest(content):
        raise EquivalenceError(
            f"{path} was changed after it was recorded (its sha256 is another): get the original back, "
            f"or record it anew with `vlmopt golden record --model {model} --force`"
        )
    return golden


def write_golden(folder: Path, golden: Golden, *, force: bool) -> str:
    """Writes the file of a model, and says what that was: `new`, `unchanged` or `replaced`.

    Raises:
        EquivalenceError: another file is there, and `force` is not given; it is left as it is.
        UsageError: the file cannot be written.
    """
    path = golden_path(folder, golden.model)
    text = golden.text()
    if path.exists():
        if path.read_text("utf-8") == text:
            return "unchanged"
        if not force:
            raise EquivalenceError(
                f"{path} holds other outputs ({_first_change(path, golden)}); nothing was written: "
                "look why, and give --force to replace it"
            )
    replaced = path.exists()
    write_whole(path, text)
    return "replaced" if replaced else "new"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _first_change(path: Path, golden: Golden) -> str:
    """The dotted path of the first value that is another one."""
    try:
        old = json.loads(path.read_bytes())
    except ValueError:
        return "it is not JSON"
    return _change(old, json.loads(golden.text()), "") or "written another way"


def _change(old: Any, new: Any, where: str) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            found = (
                None
                if key == "sha256" and not where
                else _change(old.get(key), new.get(key), f"{where}.{key}")
            )
            if found:
                return found
        return None
    return None if old == new else where.removeprefix(".")
