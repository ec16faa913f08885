"""`mada run` and its stages as commands: run a recipe or resume a run, and plan one with --dry-run."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mada.cli.recipe import file_and_overrides
from mada.cli.terminal import console, names_in, silence_libraries
from mada.errors import MadaError, RecipeError, RunError
from mada.pipeline.stages import STAGE_NAMES, generator_stages, stage_named, stage_names
from mada.text import counted, duration, in_bytes, in_millions, sanitize

if TYPE_CHECKING:
    from mada.pipeline.measure import Rates
    from mada.pipeline.plan import Plan
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

    Finished stages are skipped and an unfinished one is resumed, so the same command continues a run that was stopped;
    with --run alone the run's own recipe is used.
    """
    for name in (until, start):
        if name is not None and name not in STAGE_NAMES:
            raise RunError(f"unknown stage {name!r}; choose from {', '.join(STAGE_NAMES)}")
    if measure and not dry_run:
        raise RecipeError("--measure times a recipe without running it; use it together with --dry-run")
    recipe, target = _recipe_and_folder(arguments or (), folder)
    source = _generators_from(generators, recipe, again=start) if generators else None
    command = _command(arguments or (), folder)
    if dry_run:
        _plan(recipe, target, first=start, last=until, generators_from=source, command=command, measured=measure)
        return
    trackers = [name for text in track or () for name in names_in(text)]
    if trackers:
        from mada.pipeline.tracking import check_trackers

        check_trackers(trackers)
    _run(recipe, target, first=start, last=until, generators_from=source, trackers=trackers, command=command)


def stage_command(name: str) -> Callable[..., None]:
    """Return the command that runs one stage."""

    def command(arguments: ArgumentsArgument = None, folder: RunOption = None) -> None:
        run_stage(name, arguments or [], folder)

    command.__doc__ = f"{stage_named(name).does.capitalize()}: one stage of `mada run`."
    return command


def run_stage(name: str, arguments: list[str], folder: Path | None) -> None:
    """Run one stage."""
    recipe, target = _recipe_and_folder(arguments, folder)
    _run(recipe, target, last=name, only=name, command=_command(arguments, folder))


def _recipe_and_folder(arguments: Sequence[str], folder: Path | None) -> "tuple[Recipe, Path]":
    """Return the recipe that was given, or that of the run to continue, and the run's folder."""
    from mada.recipe import load_recipe

    file, overrides = file_and_overrides(arguments)
    if file is not None:
        recipe = load_recipe(file, overrides=overrides)
        return recipe, folder or Path("runs") / recipe.name
    if folder is None:
        raise RecipeError(
            "got no recipe; give one, such as recipes/quickstart.toml, or --run with the folder of a run to continue"
        )
    from mada.runs import StoredRun

    stored = StoredRun.read(folder)  # before PyTorch is loaded, which takes seconds
    from mada.agents import recipe_of
    from mada.recipe.loading import overridden

    return overridden(recipe_of(stored), overrides), folder


def _command(arguments: Sequence[str], folder: Path | None) -> str:
    """Return the `mada run` that was typed, for messages that add an option to it."""
    return shlex.join(["mada", "run", *arguments, *(("--run", str(folder)) if folder else ())])


def _generators_from(folder: Path, recipe: "Recipe", *, again: str | None) -> "StoredRun":
    """Return the run whose generators are to be used, after checking that they are the recipe's."""
    from mada.runs import StoredRun

    if again is not None and again in stage_names(recipe, last="critic-data"):
        raise RunError(f"--from {again} would do again what --generators takes from {folder}; leave one of them out")
    source = StoredRun.read(folder)
    silence_libraries()
    from mada.pipeline.running import check_generators_source

    check_generators_source(source, recipe)
    return source


def _run(
    recipe: "Recipe",
    folder: Path,
    *,
    first: str | None = None,
    last: str | None = None,
    only: str | None = None,
    generators_from: "StoredRun | None" = None,
    trackers: Sequence[str] = (),
    command: str,
) -> None:
    from mada.cli.run_view import shown_progress
    from mada.runs import Run

    changed = _check(recipe, folder, first=first, last=last, generators_from=generators_from, command=command)
    from mada.events import Events
    from mada.pipeline.running import refuse_gaps, run_recipe
    from mada.pipeline.tracking import RunTracker

    # The view is outside of the run, so that the manifest knows what ended the session.
    with (
        shown_progress(resume=f"mada run --run {shlex.quote(str(folder))}") as view,
        Run.open(folder, recipe, changed=changed) as opened,
    ):
        if only is not None:
            refuse_gaps(opened, recipe, before=only)
        with RunTracker(trackers, folder=opened.folder) as tracker:
            events = Events(view, tracker)
            run_recipe(opened, recipe, events=events, first=first, last=last, generators_from=generators_from)
    _print_results(folder)


def _print_results(folder: Path) -> None:
    from mada.cli.runs import print_headline_tables
    from mada.report.publishing import PAGE_FILE
    from mada.report.reading import read_summary
    from mada.runs import StoredRun

    stored = StoredRun.read(folder)
    done = [mark.name for mark in stored.finished_stages()]
    summary = read_summary(stored) if "evaluate" in done else None
    typer.echo()
    if summary is not None:
        print_headline_tables(summary, console())
    if "report" in done:
        typer.echo(f"report: {folder / PAGE_FILE}")
        typer.echo(f'next:   mada debate --run {shlex.quote(str(folder))} "Calculate 64 + 57 - 38."')
    else:
        typer.echo(f"{counted(len(done), 'stage')} done. To continue: mada run --run {shlex.quote(str(folder))}")


def _check(
    recipe: "Recipe",
    folder: Path,
    *,
    first: str | None,
    last: str | None,
    generators_from: "StoredRun | None",
    command: str,
) -> tuple[str, ...]:
    """Raise if something would stop a stage that is still to be run; nothing has been written yet.

    Returns the keys of the recipe that are new to the run in the folder.
    """
    from mada.runs.folder import mark_path

    stage_names(recipe, first=first, last=last)  # raises if there are none
    again = stage_names(recipe, first=first) if first else ()
    taken = generator_stages(recipe) if generators_from else ()
    pending = [
        name
        for name in stage_names(recipe, last=last)
        if name in again or not (name in taken or mark_path(folder, name).exists())
    ]
    silence_libraries()
    screen = console()
    with screen.status("checking the recipe") if screen.is_terminal else nullcontext():
        # PyTorch takes seconds to load
        from mada.pipeline.preflight import check_recipe
        from mada.pipeline.running import changed_keys

        changed = changed_keys(folder, recipe, first=first, command=command)
        check_recipe(recipe, pending)
    return changed


def _plan(
    recipe: "Recipe",
    folder: Path,
    *,
    first: str | None,
    last: str | None,
    generators_from: "StoredRun | None",
    command: str,
    measured: bool,
) -> None:
    """Print what would be done, and then what would stop it."""
    silence_libraries()
    from mada.pipeline.measure import measure
    from mada.pipeline.plan import plan_of

    mistake: MadaError | None = None
    try:
        _check(recipe, folder, first=first, last=last, generators_from=generators_from, command=command)
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
    taken = generator_stages(recipe) if generators_from else ()
    _print_plan(plan, recipe, folder=folder, rates=rates, taken=taken)
    if mistake is not None:
        raise mistake


def _print_plan(plan: "Plan", recipe: "Recipe", *, folder: Path, rates: "Rates | None", taken: Sequence[str]) -> None:
    from rich.table import Table

    screen = console()
    title = f"{sanitize(recipe.name)} on {sanitize(recipe.model.name)}, in {sanitize(str(folder))}"
    screen.print(f"{title}; nothing is done yet\n")
    table = Table("stage", "what", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for header in ("completions", "tokens at most", *(("time",) if rates else ())):
        table.add_column(header, justify="right")
    for stage in plan.stages:
        done = (folder / "stages" / f"{stage.name}.json").is_file()
        mark = " (done)" if done else " (taken)" if stage.name in taken else ""
        counts = [f"{stage.completions:,}", in_millions(stage.most_tokens or 0)] if stage.completions else ["–", "–"]
        times = [] if rates is None else [duration(rates.stage_seconds(stage))]
        table.add_row(f"{stage.name}{mark}", sanitize(stage.size), *counts, *times)
    if rates:
        table.add_row("together", "", "", "", duration(rates.total_seconds(plan)))
    screen.print(table)
    screen.print(f"\n{_about_times(rates)}\n")
    facts = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for name, value in _facts(plan, recipe):
        facts.add_row(name, value)
    screen.print(facts)
    for sentence in plan.warnings:
        screen.print(f"\n! {sentence}")


def _about_times(rates: "Rates | None") -> str:
    if rates is None:
        return "Time depends on the length of replies: --measure runs a few steps here and extrapolates."
    learned = "nothing learned" if rates.learned_per_second is None else f"{rates.learned_per_second:,.0f} learned"
    return (
        f"Times extrapolate a few steps of the generators' training here: replies of {rates.reply_tokens:,.0f} tokens, "
        f"{rates.sampled_per_second:,.0f} tokens per second sampled, {learned}. "
        "Loading, grading and reports take additional time, and so do replies that grow longer."
    )


def _facts(plan: "Plan", recipe: "Recipe") -> Iterator[tuple[str, str]]:
    memory = plan.memory
    agents = plan.trainable // plan.trainable_per_agent
    training, inference = recipe.training.max_new_tokens, recipe.inference.max_new_tokens
    micro_batch = f"a micro-batch of {memory.micro_batch_tokens:,} tokens"
    yield "trainable parameters", f"{plan.trainable_per_agent:,} × {agents} agents = {plan.trainable:,}"
    yield "window", f"{plan.window:,} tokens, prompt and reply; debates are shortened to it"
    yield "replies are cut off", f"at {training:,} tokens in training, {_truncated(recipe)}, otherwise at {inference:,}"
    yield "base", f"{plan.base_parameters:,} parameters, {in_bytes(memory.base)} in {plan.dtype}"
    yield "adapters, gradients, optimizer", in_bytes(memory.training)
    yield "keys and values", f"{in_bytes(memory.cache)}: {memory.rows} rows of {memory.row_tokens:,} tokens"
    yield "activations, logits", f"{in_bytes(memory.micro_batch)}: {micro_batch}"
    yield "memory together, at most", f"{in_bytes(memory.total)} of {in_bytes(plan.device.memory)}, {plan.device.name}"


def _truncated(recipe: "Recipe") -> str:
    """Say what happens to replies cut off in training."""
    words = {"learn": "learnt from", "skip": "not learnt from", "wrong": "learnt from as wrong"}
    generators, critics = (words[recipe.training_for(role).truncated] for role in ("generators", "critics"))
    if generators == critics or not recipe.team.critics:
        return f"counted and {generators} (training.truncated)"
    return f"counted and {generators} by generators, {critics} by critics (critics.truncated)"
