"""`vlmopt profile` and `vlmopt plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vlmopt import completion
from vlmopt.cli_options import Allow, Dtype, Json, Model, ModelFolder, Skip, Source, names


def profile(
    model: Model,
    fork: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Profile this fork. Default: stock vLLM.")
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Send this image; several take turns. Default: photographs."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="The size of those photographs.")] = "640x480",
    engine: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="offline, or serve: the OpenAI server and its engine process.",
            autocompletion=completion.engines,
        ),
    ] = "offline",
    requests: Annotated[int, typer.Option(metavar="N", min=1, help="How many requests are timed.")] = 12,
    flame: Annotated[
        bool | None,
        typer.Option("--flame/--no-flame", help="Draw a flame graph. Default: where austin is."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Keep torch's own profiler trace of one request, too.")
    ] = False,
    nsys: Annotated[
        bool, typer.Option("--nsys", help="Record the device's timeline with Nsight Systems, too.")
    ] = False,
    model_folder: ModelFolder = None,
    dtype: Dtype = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Default: measured/profile-fork.json or profile-stock.json in the fork's folder "
            "(DIR, or build/NAME); without a fork build/NAME-profile-stock.json.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show where the time before the first token goes.

    Times the stages of repeated requests inside an unchanged vLLM, or inside a fork.
    """
    from vlmopt import console, needs

    needs.engine("profile")
    from vlmopt.measure.dtype import dtype_of
    from vlmopt.measure.profile import Wanted, engine_kind, profile_model
    from vlmopt.report.markdown import refresh_around
    from vlmopt.report.profile import profile_object, profile_page

    pictures = tuple(image or ())
    wanted = Wanted(engine_kind(engine), pictures, size, requests, flame, trace, nsys, dtype_of(dtype))
    with console.progress("Profiling") as tick:
        written = profile_model(model, wanted, fork=fork, model_folder=model_folder, out=out, progress=tick)
    if json:
        console.show_json(profile_object(written))
    else:
        console.show(profile_page(written))
    refresh_around(written.files[0])


def plan(
    model: Model,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A profile of stock: recipes in the order of what they would save."
        ),
    ] = None,
    source: Source = None,
    skip: Skip = None,
    allow: Allow = "exact",
    json: Json = False,
) -> None:
    """Show which recipes apply, and what they would save.

    Writes nothing; `vlmopt apply --profile FILE` follows the plan.
    """
    from vlmopt import console
    from vlmopt.compiler import plan_model
    from vlmopt.report.profile import plan_page, planned_object

    with console.progress("Planning") as tick:
        made, predicted = plan_model(
            model, source=source, skip=names(skip), allow=allow, profile=profile, progress=tick
        )
    if json:
        console.show_json(planned_object(made, predicted))
    else:
        console.show(plan_page(made, predicted))
