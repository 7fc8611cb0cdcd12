"""`vlmopt rules list|show|check`."""

from __future__ import annotations

from typing import Annotated

import typer

from vlmopt import completion
from vlmopt.cli_options import Json

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="The recipes.")

Id = Annotated[str, typer.Argument(metavar="ID", help="A recipe's id.", autocompletion=completion.recipe)]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID|RULE.yaml]...", help="Recipes or files; all if none.", autocompletion=completion.recipe
    ),
]


@app.command("list")
def list_(json: Json = False) -> None:
    """List the recipes, in the order in which they apply."""
    from vlmopt import console
    from vlmopt.report import objects, terminal
    from vlmopt.rules import load_rules

    rules = load_rules()
    if json:
        console.show_json(objects.rules_object(rules))
    else:
        console.show(terminal.rules_table(rules))


@app.command()
def show(id_: Id, json: Json = False) -> None:
    """Show one recipe: what it does, why, and where."""
    from vlmopt import console
    from vlmopt.catalog import pick_rules
    from vlmopt.report import objects, terminal

    (rule,) = pick_rules([id_])
    if json:
        console.show_json(objects.rule_object(rule))
    else:
        console.show(terminal.rule_page(rule))


@app.command()
def check(ids: Ids = None, json: Json = False) -> None:
    """Run the examples of the recipes.

    Exit code 2 if one does not come out as written.
    """
    from vlmopt import console
    from vlmopt.catalog import pick_rules
    from vlmopt.report import objects
    from vlmopt.rulecheck import check_rule
    from vlmopt.rules import load_rules

    rules = pick_rules(ids) if ids else load_rules()
    problems = [problem for rule in rules for problem in check_rule(rule)]
    if json:
        console.show_json(objects.problems_object(rules, problems))
    for problem in problems:
        console.say(str(problem))
    if problems:
        raise typer.Exit(2)
    if not json:
        console.show(f"{len(rules)} recipes are sound")
