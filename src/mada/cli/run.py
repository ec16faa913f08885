"""`mada run` and its stages as commands: run a recipe or resume a run, and plan one with --dry-run."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class _Job:
    """What a command is to do: stages of a recipe, from `first` (done again) to `last`; `command` is what was typed."""

    recipe: "Recipe"
    folder: Path
    command: str
    first: str | None = None
    last: str | None = None
    source: "StoredRun | None" = None
    """The run whose generators are taken."""


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
    job = replace(_job(arguments or (), folder), first=start, last=until)
    if generators:
        job = replace(job, source=_generators_from(generators, job))
    if dry_run:
        _plan(job, measured=measure)
        return
    trackers = [name for text in track or () for name in names_in(text)]
    if trackers:
        from mada.pipeline.tracking import check_trackers

        check_trackers(trackers)
    _run(job, trackers=trackers)


def stage_command(name: str) -> Callable[..., None]:
    """Return the command that runs one stage."""

    def command(arguments: ArgumentsArgument = None, folder: RunOption = None) -> None:
        run_stage(name, arguments or [], folder)

    command.__doc__ = f"{stage_named(name).does.capitalize()}: one stage of `mada run`."
    return command


def run_stage(name: str, arguments: list[str], folder: Path | None) -> None:
    """Run one stage."""
    _run(replace(_job(arguments, folder), last=name), only=True)


def _job(arguments: Sequence[str], folder: Path | None) -> _Job:
    """Return the recipe that was given, or that of the run to continue, and the run's folder."""
    from mada.recipe import load_recipe

    command = shlex.join(["mada", "run", *arguments, *(("--run", str(folder)) if folder else ())])
    file, overrides = file_and_overrides(arguments)
    if file is not None:
        recipe = load_recipe(file, overrides=overrides)
        return _Job(recipe, folder or Path("runs") / recipe.name, command)
    if folder is None:
        raise RecipeError(
            "got no recipe; give one, such as recipes/quickstart.toml, or --run with the folder of a run to continue"
        )
    from mada.runs import StoredRun

    stored = StoredRun.read(folder)  # before PyTorch is loaded, which takes seconds
    from mada.agents import recipe_of
    from mada.recipe.loading import overridden

    return _Job(overridden(recipe_of(stored), overrides), folder, command)


def _generators_from(folder: Path, job: _Job) -> "StoredRun":
    """Return the run whose generators are to be used, after checking that they are the recipe's."""
    from mada.runs import StoredRun

    if job.first is not None and job.first in stage_names(job.recipe, last="critic-data"):
        raise RunError(
            f"--from {job.first} would do again what --generators takes from {folder}; leave one of them out"
        )
    source = StoredRun.read(folder)
    silence_libraries()
    from mada.pipeline.running import check_generators_source

    check_generators_source(source, job.recipe)
    return source


def _run(job: _Job, *, only: bool = False, trackers: Sequence[str] = ()) -> None:
    """Do a job; `only` its last stage, before which all must be finished."""
    from mada.cli.run_view import shown_progress
    from mada.runs import Run

    changed = _check(job)
    from mada.events import Events
    from mada.pipeline.running import refuse_gaps, run_recipe
    from mada.pipeline.tracking import RunTracker

    # The view is outside of the run, so that the manifest knows what ended the session.
    with (
        shown_progress(resume=f"mada run --run {shlex.quote(str(job.folder))}") as view,
        Run.open(job.folder, job.recipe, changed=changed) as opened,
    ):
        if only and job.last is not None:
            refuse_gaps(opened, job.recipe, before=job.last)
        with RunTracker(trackers, folder=opened.folder) as tracker:
            stages = {"first": job.first, "last": job.last}
            run_recipe(opened, job.recipe, events=Events(view, tracker), **stages, generators_from=job.source)
    _print_results(job.folder)


def _print_results(folder: Path) -> None:
    from mada.cli.runs import print_results

    done = print_results(folder)
    quoted = shlex.quote(str(folder))
    if "report" in done:
        typer.echo(f'next:   mada debate --run {quoted} "Calculate 64 + 57 - 38."')
    else:
        typer.echo(f"{counted(len(done), 'stage')} done. To continue: mada run --run {quoted}")


def _check(job: _Job) -> tuple[str, ...]:
    """Raise if something would stop a stage that is still to be run; nothing has been written yet.

    Returns the keys of the recipe that are new to the run in the folder.
    """
    from mada.runs.folder import mark_path

    wanted = stage_names(job.recipe, last=job.last)
    stage_names(job.recipe, first=job.first, last=job.last)  # raises if there are none
    again = stage_names(job.recipe, first=job.first) if job.first else ()
    taken = generator_stages(job.recipe) if job.source else ()
    done = [name for name in wanted if name in taken or mark_path(job.folder, name).exists()]
    silence_libraries()
    screen = console()
    with screen.status("checking the recipe") if screen.is_terminal else nullcontext():
        # PyTorch takes seconds to load
        from mada.pipeline.preflight import check_recipe
        from mada.pipeline.running import changed_keys

        changed = changed_keys(job.folder, job.recipe, first=job.first, command=job.command)
        check_recipe(job.recipe, [name for name in wanted if name in again or name not in done])
    return changed


def _plan(job: _Job, *, measured: bool) -> None:
    """Print what would be done, and then what would stop it."""
    silence_libraries()
    from mada.pipeline.measure import measure
    from mada.pipeline.plan import plan_of

    mistake: MadaError | None = None
    try:
        _check(job)
    except MadaError as error:
        mistake = error
    try:
        plan = plan_of(job.recipe)
    except MadaError as error:
        raise mistake or error from None  # without a model there is no plan, and the check has said why
    rates = None
    if measured and mistake is None:
        with console(stderr=True).status("timing a few steps of the generators' training"):
            rates = measure(job.recipe)
    _print_plan(plan, job, rates=rates)
    if mistake is not None:
        raise mistake


def _print_plan(plan: "Plan", job: _Job, *, rates: "Rates | None") -> None:
    from rich.table import Table

    screen, recipe, folder = console(), job.recipe, job.folder
    taken = generator_stages(recipe) if job.source else ()
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
