"""The folder of a training run: what it may hold, what a broken-off run leaves, the record at the end.

OUT/model.safetensors, ...     the trained model and its processor
OUT/training.json              options, recipe, losses; under `before` those of the stage that it went on from
OUT/checkpoints/               while the run is not over: states to resume from, and the run's options
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlmopt.argus.errors import InputError

_RECORD = "training.json"
_STATES = "checkpoints"


def last_state(out: Path) -> Path | None:
    """The newest whole state of a run that was broken off; None where there is nothing to resume.

    One without its last file, `trainer_state.json`, was cut short.
    """
    whole = [path.parent for path in (out / _STATES).glob("checkpoint-*/trainer_state.json")]
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def record_of(out: Path) -> dict[str, Any] | None:
    """What `training.json` says of a finished run; None where no run has finished.

    Raises:
        InputError: it cannot be read.
    """
    path = out / _RECORD
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}; remove it, or train anew") from error
    return record


class RunFolder:
    """`asked` is what the run was asked for, as JSON; a run can only be resumed with the same."""

    def __init__(self, out: Path, asked: Mapping[str, Any]) -> None:
        self.out = out
        self.checkpoints = out / _STATES
        self._asked = json.loads(json.dumps(asked))

    def begin(self, *, resume: bool) -> Path | None:
        """The state to resume from; None for a run from its beginning.

        Raises:
            InputError: there is nothing to resume, or it was another run; or, for a run from its beginning,
                the folder holds something.
        """
        last = last_state(self.out)
        if resume:
            if last is None:
                raise InputError(f"nothing to resume in {self.out}: it holds no broken-off run")
            self._compare()
            return last
        if last is not None:
            raise InputError(
                f"{self.out} holds a run that was broken off: resume it, or choose another folder"
            )
        if self.out.exists() and any(path != self.checkpoints for path in self.out.iterdir()):
            raise InputError(f"{self.out} is not empty: choose another folder")
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.checkpoints.mkdir(parents=True)
        (self.checkpoints / _RECORD).write_text(json.dumps(self._asked), "utf-8")
        return None

    def finish(
        self,
        *,
        steps: int,
        seconds: float,
        losses: Sequence[tuple[int, float]],
        before: Mapping[str, Any] | None,
    ) -> None:
        """Writes the record, and removes the states."""
        done = {"steps": steps, "seconds": round(seconds, 1), "losses": losses, "before": before}
        (self.out / _RECORD).write_text(json.dumps({**self._asked, **done}, indent=1) + "\n", "utf-8")
        shutil.rmtree(self.checkpoints)

    def _compare(self) -> None:
        before = json.loads((self.checkpoints / _RECORD).read_text("utf-8"))
        for part, asked in self._asked.items():
            for key, value in asked.items():
                if before[part].get(key) != value:
                    held = f"{self.out} holds a run with {key} {before[part].get(key)}, not {value}"
                    raise InputError(f"{held}: resume it with the same options, or choose another folder")
