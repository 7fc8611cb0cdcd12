"""The command line: parses, calls, prints. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from vlmopt import (
    cli_argus,
    cli_bench,
    cli_golden,
    cli_models,
    cli_profile,
    cli_rules,
    cli_verify,
    completion,
)
from vlmopt.cli_options import Allow, ForkFolder, Json, Model, Skip, Source, names
from vlmopt.errors import VlmoptError

app = typer.Typer(
    name="vlmopt",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Compiles recipes into vLLM: the same outputs, far less host work per image.",
    epilog="Exit codes: 0 done; 1 an equivalence does not hold; 2 wrong usage, spec, rule or source; "
    "3 drift or conflict.",
)
app.add_typer(cli_rules.app, name="rules")
app.add_typer(cli_models.app, name="models")
app.add_typer(cli_argus.app, name="argus")
app.add_typer(cli_golden.app, name="golden")


def _show_version(wanted: bool) -> None:
    if wanted:
        from vlmopt.fork.lock import own_version

        print(own_version())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    pass


@app.command()
def apply(
    model: Model,
    source: Source = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The fork's folder. Default: build/NAME.")
    ] = None,
    recipes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Only these recipes, and what they need.", autocompletion=completion.recipes
        ),
    ] = None,
    skip: Skip = None,
    allow: Allow = "exact",
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy vLLM's unchanged files, not link to them.")
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A profile of stock: follow the plan that it leads to."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a fork of vLLM for one model."""
    from vlmopt import console
    from vlmopt.compiler import compile_model
    from vlmopt.report import objects, terminal

    with console.progress("Compiling") as tick:
        plan, fork = compile_model(
            model,
            source=source,
            out=out,
            recipes=None if recipes is None else names(recipes),
            skip=names(skip),
            allow=allow,
            copy=copy,
            profile=profile,
            progress=tick,
        )
    if json:
        console.show_json(objects.plan_object(plan, fork.path))
    else:
        console.show(terminal.plan_tables(plan))
        console.show(terminal.next_steps(plan, fork))


@app.command()
def scan(source: Source = None, json: Json = False) -> None:
    """Show what would become of every architecture.

    Every image-capable architecture of vLLM's registry against every recipe, whatever its contract.
    Architectures without a spec are drafted from the code. Exit code 3 if a recipe drifted.
    """
    from vlmopt import console
    from vlmopt.report import objects, terminal
    from vlmopt.rules import load_rules
    from vlmopt.scan import scan as scan_tree
    from vlmopt.sources import open_tree
    from vlmopt.specs import list_specs

    with console.progress("Scanning") as tick:
        result = scan_tree(open_tree(source, progress=tick), list_specs(), load_rules(), progress=tick)
    if json:
        console.show_json(objects.scan_object(result))
    else:
        console.show(terminal.scan_table(result, signs=sys.stdout.isatty()))
    if result.drifted:
        raise typer.Exit(3)


@app.command()
def diff(
    folder: ForkFolder,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only this recipe's changes.", autocompletion=completion.recipe),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page instead.")
    ] = None,
    json: Json = False,
) -> None:
    """Review a fork: what changed and what was left alone."""
    from vlmopt import console
    from vlmopt.report import objects
    from vlmopt.report.review import open_review, write_page
    from vlmopt.report.review_text import review_text

    review = open_review(folder, recipe)
    if html is not None:
        write_page(review, html)
    if json:
        console.show_json(objects.diff_object(review))
    elif html is not None:
        console.say(f"wrote {html}")
    else:
        console.show(review_text(review))


@app.command(context_settings={"ignore_unknown_options": True})
def run(
    folder: ForkFolder,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="What to run.")],
) -> None:
    """Run a command against a fork.

    For example: vlmopt run DIR -- vllm serve MODEL
    """
    from vlmopt.fork import Fork
    from vlmopt.fork import run as run_command

    run_command(Fork.open(folder), command)


@app.command()
def wheel(
    folder: ForkFolder,
    out: Annotated[Path, typer.Option(metavar="FILE.whl", help="The wheel, or a folder to put it in.")],
    json: Json = False,
) -> None:
    """Pack a fork as an installable wheel.

    Its version is stock's with a local tag, such as 0.32.0+cpu.vlmopt. A plug-in that the fork overlays
    gets a wheel of its own beside it.
    """
    from vlmopt import console
    from vlmopt.fork import Fork, build_plugin_wheel, build_wheel
    from vlmopt.report import objects, terminal

    fork = Fork.open(folder)
    with console.progress("Packing") as tick:
        path = build_wheel(fork, out, progress=tick)
        plugin = build_plugin_wheel(fork, path.parent, progress=tick)
    if json:
        console.show_json(objects.wheel_object(path, plugin))
    else:
        console.show("\n".join(str(wheel) for wheel in (path, plugin) if wheel))
    if missing := terminal.unpacked_plugin(fork, plugin):
        console.say(missing)


app.command()(cli_profile.profile)
app.command()(cli_profile.plan)
app.command()(cli_verify.verify)
app.command()(cli_bench.bench)


def main() -> None:
    """The `vlmopt` program. Every expected failure is one clear message and an exit code."""
    try:
        app(prog_name="vlmopt")
    except VlmoptError as error:
        _fail(error)
    except SystemExit as stop:
        if stop.code == 130:
            print("interrupted", file=sys.stderr)
        _flush()
        raise
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _fail(VlmoptError(f"{what}; nothing more was written"))


def _fail(error: VlmoptError) -> None:
    from vlmopt import console
    from vlmopt.report.objects import error_object

    told = error_object(error, console.keep(error.output) if error.output else None)
    if "--json" in sys.argv[1 : sys.argv.index("--") if "--" in sys.argv else None]:
        console.show_json(told)
    print(f"vlmopt: {told['error']['message']}", file=sys.stderr)
    _flush()
    sys.exit(error.exit_code)


def _flush() -> None:
    """A reader that has gone away (`vlmopt scan | head`) is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
