"""`vlmopt golden record|check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vlmopt import completion
from vlmopt.cli_options import Json

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Outputs of a third party that vLLM is held against."
)

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|SPEC.yaml",
        help="Only this model: a spec's name, a path or a hub id. Default: all.",
        autocompletion=completion.models,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        help="Where cases.yaml, images/ and the golden outputs lie. Default: vlmopt's.",
    ),
]


@app.command()
def record(
    model: Model = None,
    force: Annotated[bool, typer.Option("--force", help="Replace outputs that are others.")] = False,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Write down what Hugging Face transformers gives for each case.

    Exit code 1, and nothing written, if other outputs are recorded already.
    """
    from vlmopt import console, needs

    needs.engine("golden")
    from vlmopt.folders import golden_folder
    from vlmopt.golden.record import record_all
    from vlmopt.report import golden

    with console.progress("Recording") as tick:
        done = record_all(model, folder or golden_folder(), force=force, progress=tick)
    if json:
        console.show_json(golden.recorded_object(done))
    else:
        console.show(golden.recorded_table(done))


@app.command()
def check(
    model: Model = None,
    fork: Annotated[
        Path | None,
        typer.Option(
            "--fork", metavar="DIR", help="The fork. Default: build/NAME, or one made for the check."
        ),
    ] = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Hold transformers, stock vLLM and the fork against the golden outputs.

    Exit code 1 if one of them does not give what it must.
    """
    from vlmopt import console, needs

    needs.engine("golden")
    from vlmopt.folders import golden_folder
    from vlmopt.golden.check import check_all
    from vlmopt.report import golden

    with console.progress("Checking") as tick:
        checked = check_all(model, folder or golden_folder(), fork, progress=tick)
    if json:
        console.show_json(golden.checked_object(checked))
    else:
        console.show(golden.checked_tables(checked))
    if not all(each.holds for each in checked):
        raise typer.Exit(1)
