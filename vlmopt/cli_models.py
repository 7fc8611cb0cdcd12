"""`vlmopt models list|show|build|infer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vlmopt import completion
from vlmopt.cli_options import Json, Source

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="The model specs.")

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|SPEC.yaml", help="A spec's name, a path, or a hub id.", autocompletion=completion.models
    ),
]
Architecture = Annotated[
    str, typer.Argument(metavar="ARCH", help="A key of vLLM's model registry, as in a config.json.")
]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the model specs."""
    from vlmopt import console
    from vlmopt.report import objects, terminal
    from vlmopt.specs import list_specs

    specs = list_specs()
    if json:
        console.show_json(objects.specs_object(specs))
    else:
        console.show(terminal.specs_table(specs))


@app.command()
def show(name: Name, json: Json = False) -> None:
    """Show one model spec."""
    from vlmopt import console
    from vlmopt.report import objects, terminal
    from vlmopt.report.small import small_folder_text
    from vlmopt.specs import load_spec

    spec = load_spec(name)
    if json:
        console.show_json(objects.spec_object(spec))
    else:
        console.show(terminal.spec_page(spec))
        console.show(small_folder_text(spec))


@app.command()
def build(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="DIR", help="It is made as DIR/NAME.")],
    json: Json = False,
) -> None:
    """Build the small model folder of a spec.

    The model's own geometry, tokenizer and settings, shrunk towers, and seeded weights. vLLM and transformers
    load it like one of the hub. A model that is small itself is copied. Nothing is fetched.
    """
    from vlmopt import console
    from vlmopt.small import build_small_model
    from vlmopt.specs import load_spec

    spec = load_spec(name)
    with console.progress("Making weights"):
        folder = build_small_model(spec, out)
    if json:
        console.show_json({"model": spec.name, "folder": str(folder)})
    else:
        console.show(str(folder))


@app.command()
def infer(architecture: Architecture, source: Source = None, json: Json = False) -> None:
    """Draft the spec of an architecture from vLLM's code.

    What a person must fill in is marked so. Nothing of vLLM is imported or run.
    """
    from vlmopt import console
    from vlmopt.infer import infer_spec
    from vlmopt.report import objects, terminal
    from vlmopt.sources import open_tree

    with console.progress("Reading vLLM") as tick:
        draft = infer_spec(open_tree(source, progress=tick), architecture)
    if json:
        console.show_json(objects.draft_object(draft))
    else:
        console.show(draft.yaml().rstrip())
        console.say(terminal.gaps_text(draft))
