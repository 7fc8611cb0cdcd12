"""`vlmopt argus train|eval|show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vlmopt.cli_options import Json

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="ArgusVLM, the vision-language family that answers with boxes.",
)


@app.callback()
def root() -> None:
    pass


def _folder(text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="DIR", help=text)
    return option


@app.command()
def train(
    stage: Annotated[int, typer.Option(min=1, max=2, help="1: align pictures with text; 2: instructions.")],
    out: Annotated[Path, _folder("The folder that the trained model is written to.")],
    model: Annotated[
        str, typer.Option(metavar="NAME|FILE.yaml", help="A member of the family.")
    ] = "argusvlm-tiny",
    start: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="A checkpoint to go on from, as of stage 1.")
    ] = None,
    data: Annotated[
        str, typer.Option(metavar="scenes|DIR:SPLIT", help="Made scenes, or a folder in COCO's layout.")
    ] = "scenes",
    steps: Annotated[int | None, typer.Option(help="Default: the member's own, as for the next two.")] = None,
    batch: Annotated[int | None, typer.Option(help="Pictures in a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The highest one.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between points to resume from.")] = 500,
    boxes: Annotated[
        str | None,
        typer.Option(metavar="float|bin|codebook", help="Another box format than the member's own."),
    ] = None,
    tokenizer: Annotated[Path | None, _folder("The language model's tokenizer.")] = None,
    vision: Annotated[Path | None, _folder("A pretrained vision encoder, or an ArgusVLM with one.")] = None,
    language: Annotated[Path | None, _folder("A pretrained language model, likewise.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the processor.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was broken off.")] = False,
    json: Json = False,
) -> None:
    """Train a member of the family, one stage at a time."""
    from vlmopt import console
    from vlmopt.argus import needs

    needs.argus()
    from vlmopt.argus.training import run

    with console.progress("Training") as tick:
        result = run.train(
            run.Options(
                member=model,
                number=stage,
                out=out,
                start=start,
                data=data,
                steps=steps,
                batch=batch,
                learning_rate=learning_rate,
                seed=seed,
                save_every=save_every,
                form=boxes,
                tokenizer=tokenizer,
                vision=vision,
                language=language,
                threads=threads,
                resume=resume,
            ),
            tick,
        )
    if json:
        console.show_json(result.to_json())
    else:
        console.show(result.summary())


@app.command("eval")
def evaluate(
    checkpoint: Annotated[
        Path | None, typer.Argument(metavar="[CHECKPOINT]", help="Default: the one that comes with vlmopt.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="scenes|DIR:SPLIT|FILE",
            help="Held-out scenes, a folder in COCO's layout, or a benchmark's file; VQA's two: twice.",
        ),
    ] = None,
    images: Annotated[Path | None, _folder("The pictures of a benchmark.")] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="transformers|stock|fork|DIR",
            help="Whom to ask, once for each; DIR is a fork. Default: the first three.",
        ),
    ] = None,
    count: Annotated[int | None, typer.Option(help="Pictures. Default: 100 scenes, or all.")] = None,
    seed: Annotated[int, typer.Option(help="Another one gives other scenes.")] = 0,
    tokens: Annotated[int, typer.Option(help="The most tokens of an answer.")] = 256,
    json: Json = False,
) -> None:
    """Score a checkpoint, and hold transformers, vLLM and a fork against each other.

    Exit code 1 if they do not give the same tokens.
    """
    from vlmopt import console
    from vlmopt.argus import needs

    needs.argus()
    from vlmopt.argus.evaluation import run

    with console.progress("Evaluating") as tick:
        result = run.evaluate(
            run.Options(
                checkpoint=checkpoint,
                data=data or run.Options.data,
                images=images,
                engines=engine or run.Options.engines,
                count=count,
                seed=seed,
                tokens=tokens,
            ),
            tick,
        )
    if json:
        console.show_json(result.to_json())
    else:
        console.show(result.summary())
    if not result.agree:
        raise typer.Exit(1)


@app.command()
def show(
    image: Annotated[list[Path] | None, typer.Argument(metavar="IMAGE", help="A picture.")] = None,
    question: Annotated[str | None, typer.Option(help="Default: to describe the picture with boxes.")] = None,
    checkpoint: Annotated[
        Path | None, _folder("A trained model. Default: the one that comes with vlmopt.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Default: NAME-boxes.png in this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Answer a question about a picture, and draw the answer's boxes on it."""
    from vlmopt import console
    from vlmopt.argus import needs

    needs.argus()
    from vlmopt.argus import showing

    shown = showing.show(
        image or [],
        question=question,
        checkpoint=checkpoint,
        out=out,
    )
    if json:
        console.show_json(shown.to_json())
    else:
        console.show(shown.summary())
