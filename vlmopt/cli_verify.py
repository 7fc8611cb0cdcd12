"""`vlmopt verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vlmopt import completion
from vlmopt.cli_options import ForkFolder, Json, ModelFolder, SpecOfFork


def verify(
    folder: ForkFolder,
    examples: Annotated[
        int | None,
        typer.Option(metavar="N", help="Cases to compare. Default: processor 300, tower 150, engine 50."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed draws the same cases.")] = 0,
    level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="How far requests are followed: processor, tower or engine.",
            autocompletion=completion.verify_levels,
        ),
    ] = "processor",
    replay: Annotated[
        Path | None, typer.Option(metavar="CASE", help="Compare a failing case again, from its folder.")
    ] = None,
    model: SpecOfFork = None,
    model_folder: ModelFolder = None,
    json: Json = False,
) -> None:
    """Prove a fork equal to stock.

    Sends the same generated requests to stock and to the fork and compares every stage. Exit code 1 if the
    fork breaks what its recipes promise.
    """
    from vlmopt import console, needs

    needs.engine("verify")
    from vlmopt.report.markdown import refresh
    from vlmopt.report.verification import verification_page
    from vlmopt.verify.run import replay_case, verify_fork

    with console.progress("Verifying") as tick:
        if replay is not None:
            result = replay_case(folder, replay, model=model, model_folder=model_folder, progress=tick)
        else:
            result = verify_fork(
                folder,
                level=level,
                examples=examples,
                seed=seed,
                model=model,
                model_folder=model_folder,
                progress=tick,
            )
    if json:
        console.show_json(result.to_object())
    else:
        console.show(verification_page(result))
    refresh(folder)
    if not result.holds:
        raise typer.Exit(1)
