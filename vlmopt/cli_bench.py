"""`vlmopt bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from vlmopt.cli_options import Dtype, ForkFolder, Json, ModelFolder, SpecOfFork, names


def bench(
    folder: ForkFolder,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="WxH,...", help="Image sizes. Default: 224x224,640x480,1920x1080."),
    ] = None,
    images: Annotated[
        str | None, typer.Option(metavar="N,...", help="Images in a request, 1 to 4. Default: 1.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N,...", help="Output tokens. Default: 1,16,128.")
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(metavar="N,...", help="Requests at once at the server. Default: 1,4,16."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="The whole matrix: five sizes, one to four images, and answers and bursts for each.",
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="End after so long, and two rounds. Default: 5; with --all when the ratios are steady.",
        ),
    ] = None,
    model: SpecOfFork = None,
    model_folder: ModelFolder = None,
    dtype: Dtype = None,
    json: Json = False,
) -> None:
    """Measure a fork against stock.

    Both run side by side, in turn, offline and as OpenAI servers. The result is kept in
    DIR/measured/bench.json, and says whether the machine was calm enough for it.
    """
    from vlmopt import console, needs

    needs.engine("bench")
    from vlmopt.measure.bench import bench_fork
    from vlmopt.measure.dtype import dtype_of
    from vlmopt.measure.matrix import matrix_of
    from vlmopt.report.bench import bench_page
    from vlmopt.report.markdown import refresh

    matrix = matrix_of(
        names(sizes),
        names(images),
        names(tokens),
        names(concurrency),
        everything=everything,
        minutes=minutes,
    )
    wanted = dtype_of(dtype)
    with console.progress("Measuring") as tick:
        result = bench_fork(
            folder, matrix, model=model, model_folder=model_folder, dtype=wanted, progress=tick
        )
    if json:
        console.show_json(result.model_dump(mode="json"))
    else:
        console.show(bench_page(result))
    refresh(folder)
