"""`mada recipe`: look at recipes, check them and compare them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mada.errors import RecipeError

app = typer.Typer(no_args_is_help=True, help="Show, check and compare recipes, the files that say what a run does.")


@app.command()
def show(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE|KEY=VALUE", help="A recipe file, and fields to set in it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say above every field what it is.")] = False,
) -> None:
    """Print a complete recipe: the defaults, changed by FILE, changed by each KEY=VALUE."""
    from mada.recipe import load_recipe, recipe_to_toml

    if as_json and explain:
        raise typer.BadParameter("--explain writes comments, which JSON cannot hold; leave out one of the two")
    file, overrides = file_and_overrides(arguments or ())
    recipe = load_recipe(file, overrides=overrides)
    if as_json:
        typer.echo(recipe.model_dump_json(indent=2))
    else:
        typer.echo(recipe_to_toml(recipe, explain=explain), nl=False)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Recipe files.")],
) -> None:
    """Say of every FILE whether it is a valid recipe; exit code 2 when one is not."""
    from mada.recipe import digest, load_recipe

    errors: list[str] = []
    for file in files:
        try:
            recipe = load_recipe(file)
        except RecipeError as error:
            errors.append(str(error))
        else:
            typer.echo(f"ok  {digest(recipe)}  {file}")
    if errors:
        raise RecipeError("\n".join(errors))


@app.command()
def diff(
    left: Annotated[Path, typer.Argument(metavar="A", help="A recipe file.")],
    right: Annotated[Path, typer.Argument(metavar="B", help="Another recipe file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all values in full.")] = False,
) -> None:
    """Print the fields in which A and B differ; exit code 1 when there are any, as diff does."""
    from mada.difference import Difference, differences, format_differences
    from mada.recipe import load_recipe

    found = differences(load_recipe(left), load_recipe(right))
    if as_json:
        from pydantic import TypeAdapter

        typer.echo(TypeAdapter(list[Difference]).dump_json(found, indent=2))
    elif found:
        typer.echo(format_differences(found))
    if found:
        raise typer.Exit(1)


def file_and_overrides(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Return the recipe file among a command's arguments, if any, and its `key=value` overrides."""
    # A file may have '=' in its name; what exists is a file. An override may be longer than any file's name.
    overrides = [text for text in arguments if "=" in text and not os.path.isfile(text)]
    files = [text for text in arguments if text not in overrides]
    if len(files) > 1:
        raise RecipeError(f"got {len(files)} files ({', '.join(files)}), wanted one; overrides are key=value")
    return (Path(files[0]) if files else None), overrides
