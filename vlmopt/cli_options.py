"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vlmopt import completion

Source = Annotated[
    str | None,
    typer.Option(
        "--vllm",
        metavar="SOURCE",
        help="Where vLLM is read from: `installed`, a folder, a .whl or .tar.gz file, or a release such as "
        "0.33.0. Default: the installed one, else the pinned release.",
        autocompletion=completion.sources,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME|SPEC.yaml",
        help="A model spec's name, a path to one, or a hub id.",
        autocompletion=completion.models,
    ),
]
ForkFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A fork that `vlmopt apply` wrote.")]

SpecOfFork = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|SPEC.yaml",
        help="The model's spec. Default: the one that the fork was made for.",
        autocompletion=completion.models,
    ),
]
ModelFolder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="MODEL", help="A real model folder. Default: the spec's small model."),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE",
        help="The model's type. Default: bfloat16; float32 on a CPU without arithmetic for that.",
        autocompletion=completion.dtypes,
    ),
]
Skip = Annotated[
    str | None,
    typer.Option("--skip", metavar="A,B", help="Not these.", autocompletion=completion.recipes),
]
Allow = Annotated[
    str,
    typer.Option(
        "--allow",
        metavar="LEVEL",
        help="The loosest contract to use: exact, bounded or approximate.",
        autocompletion=completion.levels,
    ),
]


def names(text: str | None) -> list[str]:
    """`A,B` as a list; empty for None."""
    return [name for part in (text or "").split(",") if (name := part.strip())]
