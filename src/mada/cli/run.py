"""`mada run` and its stages, and `mada runs`: do the whole method, or go on with it, and see what there is."""

import os
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mada.cli.names import names_in
from mada.cli.terminal import console, quieten
from mada.errors import EngineError, EvaluationError, MadaError, RecipeError, RunError
from mada.pipeline.stages import STAGE_NAMES, stage_named, stage_names
from mada.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mada.recipe import Recipe
    from mada.runs import StoredRun

ArgumentsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[RECIPE] [KEY=VALUE]…", help="A recipe file, and fields to set in it.")
]
RunOption = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="Folder of the run; without it runs/NAME of the recipe.")
]


def run(
    arguments: ArgumentsArgument = None,
    folder: RunOption = None,
    until: Annotated[str | None, typer.Option(metavar="STAGE", help="Stop after this stage.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="STAGE", help="Do this stage and all after it again."),
    ] = None,
    generators: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Take the generators and critic data of this run, if the recipe differs only after them.",
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Send numbers to a tracker too: wandb, trackio, tensorboard or mlflow."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="With --dry-run: time a few steps here and extrapolate.")
    ] = False,
) -> None:
    """Run a recipe: split, screen if it says so, generators, critic-data, critics, evaluate, report.

    Finished stages are skipped and an unfinished one goes on, so the same command continues a run that was stopped;
    with --run alone the run's own recipe is used.
    """
    for name in (until, start):
        _check_stage(name)
    recipe, place = _chosen(arguments or (), folder)
    lender = _lender(generators, recipe, again=start) if generators else None
    command = _command(arguments or (), folder)
    if measure and not dry_run:
        raise RecipeError("--measure times a recipe without running it; use it together with --dry-run")
    if dry_run:
        _print_plan(recipe, place, first=start, last=until, lender=lender, command=command, measured=measure)
    else:
        tracked = _trackers(track or ())
        _run(recipe, place, first=start, last=until, lender=lender, trackers=tracked, command=command)


def stage_command(name: str) -> "Callable[..., None]":
    """Return the command that does one stage of a run."""

    def command(arguments: ArgumentsArgument = None, folder: RunOption = None) -> None:
        run_stage(name, arguments or [], folder)

    command.__doc__ = f"{stage_named(name).does.capitalize()}: one stage of `mada run`."
    return command


def run_stage(name: str, arguments: list[str], folder: Path | None) -> None:
    """Do one stage of a run."""
    recipe, place = _chosen(arguments, folder)
    _run(recipe, place, last=name, only=name, command=_command(arguments, folder))


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List runs: how far they are, and what came of them."""
    from mada.cli.runs_table import print_runs

    print_runs(folder, as_json=as_json)


def _check_stage(name: str | None) -> None:
    if name is not None and name not in STAGE_NAMES:
        raise RunError(f"{name!r} is no stage; the stages are {', '.join(STAGE_NAMES)}")


def _chosen(arguments: "list[str] | tuple[str, ...]", folder: Path | None) -> "tuple[Recipe, Path]":
    """Return the recipe that was asked for, or that of the run that is to go on, and the run's folder."""
    from mada.recipe import load_recipe

    overrides = [text for text in arguments if "=" in text and not os.path.isfile(text)]
    files = [text for text in arguments if text not in overrides]
    if len(files) > 1:
        raise RecipeError(f"got {len(files)} recipe files ({', '.join(files)}), wanted one")
    if files:
        recipe = load_recipe(Path(files[0]), overrides=overrides)
        return recipe, folder or Path("runs") / recipe.name
    if folder is None:
        raise RecipeError(
            "got no recipe; give one, such as recipes/quickstart.toml, or --run with the folder of a run to go on with"
        )
    from mada.runs import StoredRun

    stored = StoredRun.read(folder)  # before PyTorch is loaded, which takes seconds
    from mada.agents import recipe_of
    from mada.recipe.loading import overridden

    return overridden(recipe_of(stored), overrides), folder


def _command(arguments: "Sequence[str]", folder: Path | None) -> str:
    """Return the `mada run` that was typed, for a message to add an option to."""
    return shlex.join(["mada", "run", *arguments, *(("--run", str(folder)) if folder else ())])


def _trackers(names: "Sequence[str]") -> "tuple[str, ...]":
    """Return the trackers that were asked for, one by one or with commas, if all of them are there."""
    wanted = tuple(name for text in names for name in names_in(text))
    if wanted:
        from mada.learning.trackers import check_trackers

        check_trackers(wanted)
    return wanted


def _lender(folder: Path, recipe: "Recipe", *, again: str | None) -> "StoredRun":
    """Return the run whose generators are to be taken, if they are the recipe's, before anything is written."""
    from mada.runs import StoredRun

    if again is not None and again in stage_names(recipe, last="critic-data"):
        raise RunError(f"--from {again} would do again what --generators takes from {folder}; leave one of them out")
    lender = StoredRun.read(folder)
    quieten()
    from mada.pipeline.running import check_generators_source

    check_generators_source(lender, recipe)
    return lender


def _run(
    recipe: "Recipe",
    folder: Path,
    *,
    first: str | None = None,
    last: str | None = None,
    only: str | None = None,
    lender: "StoredRun | None" = None,
    trackers: "Sequence[str]" = (),
    command: str,
) -> None:
    """Do the stages of a recipe, once nothing is left that could be refused beforehand."""
    from mada.cli.run_view import RunView
    from mada.runs import Run

    screen = console()
    changed = _checked(recipe, folder, first=first, last=last, lender=lender, command=command)
    from mada.events import Events
    from mada.pipeline.running import refuse_gaps, run_recipe
    from mada.pipeline.tracking import RunTracker

    view = RunView(screen)
    kept = f"what is finished is kept. To go on: mada run --run {shlex.quote(str(folder))}"
    try:
        with Run.open(folder, recipe, changed=changed) as opened:
            try:
                if only is not None:
                    refuse_gaps(opened, recipe, before=only)
                with RunTracker(trackers, folder=opened.folder) as tracker:
                    events = Events(view, tracker)
                    run_recipe(opened, recipe, events=events, first=first, last=last, generators_from=lender)
            finally:
                view.close()
            _print_results(opened.folder, folder)
    # Caught out here, so that the manifest knows what ended the session.
    except KeyboardInterrupt:
        where = f" in {view.stage}" if view.stage else ""
        typer.echo(f"\nmada: stopped{where}; {kept}", err=True)
        raise typer.Exit(130) from None
    except (EngineError, EvaluationError) as error:
        raise type(error)(f"{error}; {kept}") from None


def _print_results(folder: Path, shown: Path) -> None:
    from mada.report.forms.terminal import print_table
    from mada.report.publishing import PAGE_FILE
    from mada.report.reading import read_summary
    from mada.report.sections.results import headline_tables
    from mada.runs import StoredRun

    stored = StoredRun.read(folder)
    done = [mark.name for mark in stored.finished_stages()]
    if "evaluate" in done:
        summary = read_summary(stored)
        if summary is not None:
            screen = console()
            for table in headline_tables(summary):
                screen.print()
                print_table(table, screen)
    if "report" in done:
        typer.echo(f"\nreport: {shown / PAGE_FILE}")
        typer.echo(f'next:   mada debate --run {shlex.quote(str(shown))} "Calculate 64 + 57 - 38."')
    else:
        typer.echo(f"\n{counted(len(done), 'stage')} done. To go on: mada run --run {shlex.quote(str(shown))}")


def _checked(
    recipe: "Recipe",
    folder: Path,
    *,
    first: str | None,
    last: str | None,
    lender: "StoredRun | None",
    command: str,
) -> tuple[str, ...]:
    """Refuse what would stop the stages that are still to be done; nothing has been written yet.

    Returns the keys of the recipe that are new to the run in the folder.
    """
    stage_names(recipe, first=first, last=last)
    quieten()
    screen = console()
    with screen.status("checking the recipe") if screen.is_terminal else nullcontext():
        # PyTorch takes seconds to load
        from mada.pipeline.preflight import check_recipe
        from mada.pipeline.running import changed_keys

        changed = changed_keys(folder, recipe, first=first, command=command)
        check_recipe(recipe, _to_do(recipe, folder, first=first, last=last, lender=lender))
    return changed


def _to_do(
    recipe: "Recipe", folder: Path, *, first: str | None, last: str | None, lender: "StoredRun | None"
) -> list[str]:
    """Return the stages that are not finished, not to be taken from another run, or to be done again."""
    from mada.pipeline.stages import generator_stages
    from mada.runs.folder import mark_path

    again = stage_names(recipe, first=first) if first else ()
    taken = generator_stages(recipe) if lender else ()
    return [
        name
        for name in stage_names(recipe, last=last)
        if name in again or not (name in taken or mark_path(folder, name).exists())
    ]


def _print_plan(
    recipe: "Recipe",
    folder: Path,
    *,
    first: str | None,
    last: str | None,
    lender: "StoredRun | None",
    command: str,
    measured: bool,
) -> None:
    """Print what would be done, and then what would stop it."""
    quieten()
    from mada.cli.plan_table import print_plan
    from mada.pipeline.measure import measure
    from mada.pipeline.plan import plan_of

    mistake: MadaError | None = None
    try:
        _checked(recipe, folder, first=first, last=last, lender=lender, command=command)
    except MadaError as error:
        mistake = error
    try:
        plan = plan_of(recipe)
    except MadaError as error:
        raise mistake or error from None  # without a model there is no plan, and the check has said why
    rates = None
    if measured and mistake is None:
        with console(stderr=True).status("timing a few steps of the generators' training"):
            rates = measure(recipe)
    print_plan(plan, recipe, folder=folder, rates=rates, lender=lender)
    if mistake is not None:
        raise mistake
