"""`mada runs` and `mada show`: the runs in a folder, and one run's progress, training and results as text."""

import shlex
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mada.cli.terminal import console, print_json
from mada.errors import MadaError, RunError
from mada.pipeline.stages import STAGE_NAMES
from mada.text import counted, duration, printable, sanitize

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from mada.evaluation.summary import Summary
    from mada.report.reading import Source
    from mada.runs import StoredRun

_SPARKLINE_WIDTH = 48


def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List runs with their progress and headline numbers, oldest first."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder; give the one that holds your runs")
    lines = [_line(run) for run in _run_folders(folder)]
    lines.sort(key=lambda line: (line["started_at"] is None, line["started_at"]))
    if as_json:
        print_json(lines)
        return
    if not lines:
        raise RunError(f"{folder} holds no runs; `mada run recipes/quickstart.toml` makes one")
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("run", "recipe", "state", "begun"):
        table.add_column(name, no_wrap=name != "state", max_width=40 if name == "state" else None)
    for name in ("took", "single agent", "MADA debate"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        begun = line["started_at"][:16].replace("T", " ") if line["started_at"] else "–"
        error = "" if line["standard_error"] is None else f" ± {100 * line['standard_error']:.1f}"
        single, team = ("–" if share is None else f"{100 * share:.1f}" for share in (line["untrained"], line["team"]))
        names = (sanitize(line[name]) for name in ("folder", "recipe", "state"))
        table.add_row(*names, begun, duration(line["seconds"]), single, team + error)
    screen = console()
    # Names are for copying, so nothing is cut off: a window too narrow for them wraps the lines itself.
    screen.width = max(screen.width, screen.measure(table, options=screen.options.update(max_width=10_000)).maximum)
    screen.print(table)


def show(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="The folder of a run; without it the latest in runs/.")
    ] = None,
) -> None:
    """Show a run in the terminal: its progress, training and results."""
    from mada.runs import StoredRun

    folder = folder or _latest_run(Path("runs"))
    run = StoredRun.read(folder)
    from mada.report.publishing import title_of
    from mada.report.reading import Source
    from mada.report.training import finished_training_warnings

    source, screen = Source.of(run), console()
    marks = run.finished_stages()
    screen.print(f"{printable(title_of(run))}: {_state(run, [mark.name for mark in marks])}", style="bold")
    begun = f"{run.manifest.started_at:%Y-%m-%d %H:%M} UTC"
    screen.print(f"{sanitize(str(folder))}, seed {run.manifest.seed}, begun {begun}", soft_wrap=True)
    if marks:
        times = ", ".join(f"{sanitize(mark.name)} {duration(mark.seconds)}" for mark in marks)
        screen.print(f"stages: {times}", soft_wrap=True)
    _print_training(run, screen)
    for warning in finished_training_warnings(run):
        screen.print(f"warning: {sanitize(warning)}", style="yellow", soft_wrap=True)
    _print_results(source, folder, screen)


def _run_folders(folder: Path) -> list[Path]:
    return sorted(manifest.parent for manifest in folder.glob("*/manifest.json"))


def _latest_run(folder: Path) -> Path:
    """Return the run in a folder with the latest session."""
    from mada.runs import StoredRun

    started: dict[Path, datetime] = {}
    for run in _run_folders(folder):
        with suppress(MadaError):  # `mada runs` says what is wrong with it
            started[run] = StoredRun.read(run).manifest.sessions[-1].started_at
    if not started:
        raise RunError(f"got no run, and {folder} holds none that can be read; give the folder of a run")
    return max(started, key=lambda run: started[run])


def print_results(folder: Path, *, notes: Iterable[str] = ()) -> list[str]:
    """Print the tables of all systems, notes, and where the report lies, if there are any; return finished stages."""
    from mada.report.publishing import PAGE_FILE
    from mada.report.reading import read_summary
    from mada.runs import StoredRun

    run = StoredRun.read(folder)
    done = [mark.name for mark in run.finished_stages()]
    summary = read_summary(run) if "evaluate" in done else None
    typer.echo()
    if summary is not None:
        _print_headline_tables(summary, console())
    for note in notes:
        typer.echo(note)
    if "report" in done:
        typer.echo(f"report: {folder / PAGE_FILE}")
    return done


def _print_headline_tables(summary: "Summary", screen: "Console") -> None:
    from mada.report.forms.terminal import print_table
    from mada.report.sections.results import headline_tables

    for table in headline_tables(summary):
        print_table(table, screen)
        screen.print()


def _line(folder: Path) -> dict[str, Any]:
    """Return a run's line in the list; accuracies are shares of right verdicts, None before they are measured."""
    from mada.report.reading import read_summary
    from mada.runs import StoredRun

    line = dict.fromkeys(("folder", "recipe", "state", "started_at", "seconds", "untrained", "team", "standard_error"))
    line |= {"folder": str(folder), "recipe": "–", "seconds": 0.0}
    try:
        run = StoredRun.read(folder)
        marks = run.finished_stages()
        names = [mark.name for mark in marks]
        summary = read_summary(run) if "evaluate" in names else None
        state = _state(run, names)
    except MadaError as error:
        return line | {"state": f"unreadable: {error}"}
    by_name = {one.system.name: one.verdict.average for one in summary.systems} if summary else {}
    team, single = by_name.get("mada"), by_name.get("single")
    return line | {
        "recipe": str(run.manifest.recipe.get("name", "–")),
        "state": state,
        "started_at": run.manifest.started_at.isoformat(),
        "seconds": sum(mark.seconds for mark in marks),
        "untrained": single and single.mean,
        "team": team and team.mean,
        "standard_error": team and team.standard_error,
    }


def _state(run: "StoredRun", done: list[str]) -> str:
    from mada.report.publishing import PAGE_FILE
    from mada.runs.folder import EXPORT
    from mada.runs.lock import holder_of

    if holder_of(run.folder) is not None:
        return f"running, {counted(len(done), 'stage')} done"
    if EXPORT in done:
        return "an export of a run"
    # `mada report` writes the page without locking the run, so it does not mark the stage as done.
    if "report" in done or ("evaluate" in done and (run.folder / PAGE_FILE).is_file()):
        return "finished"
    after = [name for name in STAGE_NAMES if name in done]
    return f"stopped after {after[-1]}" if after else "stopped before its first stage was done"


def _print_training(run: "StoredRun", screen: "Console") -> None:
    from mada.cli.training_view import sparkline
    from mada.report.training import read_curves

    all_curves = read_curves(run)
    for role in dict.fromkeys(curve.role for curve in all_curves):
        curves = [curve for curve in all_curves if curve.role == role]
        values = [point.value for curve in curves for point in curve.rollouts]
        low, high = min(values, default=0.0), max(values, default=0.0)
        steps = max((point.step for curve in curves for point in curve.rollouts), default=0)
        span = f"between {_percent(low)} and {_percent(high)}"
        course = f"accuracy of rollouts over {counted(steps, 'step')}, {span}" if values else "no rollouts yet"
        screen.print(f"\n{role}: {course}")
        name_width = max(len(curve.agent) for curve in curves)
        width = max(8, min(_SPARKLINE_WIDTH, screen.width - name_width - 34))
        for curve in curves:
            line = sparkline([point.value for point in curve.rollouts], low=low, high=high, width=width)
            validation = ""
            if curve.validation:
                best = next((point for point in curve.validation if point.is_best), curve.validation[-1])
                validation = f"  validation {_percent(curve.validation[0].accuracy)} → {_percent(best.accuracy)}"
            screen.print(f"  {sanitize(curve.agent):<{name_width}}  {line}{validation}", soft_wrap=True)


def _print_results(source: "Source", folder: Path, screen: "Console") -> None:
    from mada.evaluation.summary import summarize
    from mada.report.publishing import PAGE_FILE
    from mada.report.sections.results import headline_sentence

    screen.print()
    if source.grid is None:
        begun = "the evaluation has begun; results appear when a seed is finished"
        screen.print(begun if source.left_out else "not evaluated yet")
        return
    if source.left_out:
        screen.print(f"the evaluation is not finished; left out: {sanitize(str(source.left_out))}", soft_wrap=True)
    summary = summarize(source.grid)
    _print_headline_tables(summary, screen)
    screen.print(printable(headline_sentence(summary)), style="bold", soft_wrap=True)
    page = folder / PAGE_FILE
    command = f"mada report {shlex.quote(sanitize(str(folder)))}"
    hint = f"report: {sanitize(str(page))}" if page.is_file() else f"for a page with every table and debate: {command}"
    screen.print(hint, soft_wrap=True)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
