"""What `mada show` prints: the state of a run, its training as sparklines, and its headline table."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mada.cli.runs_table import state_of
from mada.cli.terminal import safe
from mada.cli.training_view import sparkline
from mada.text import counted, duration, printable

if TYPE_CHECKING:
    from rich.console import Console

    from mada.report.reading import Source
    from mada.report.training import TrainingCurve
    from mada.runs import StoredRun

WIDEST = 48
"""Characters of a sparkline: enough to see a course, and agents' names and numbers fit beside it."""


def print_run(run: "StoredRun", folder: Path, screen: "Console") -> None:
    """Print the essentials of a run."""
    from mada.report.publishing import title_of
    from mada.report.reading import Source
    from mada.report.training import finished_training_warnings

    source = Source.of(run)
    manifest, marks = run.manifest, run.finished_stages()
    screen.print(f"{printable(title_of(run))}: {state_of(run, [mark.name for mark in marks])}", style="bold")
    where = f"{safe(str(folder))}, seed {manifest.seed}, begun {manifest.started_at:%Y-%m-%d %H:%M} UTC"
    screen.print(where, soft_wrap=True)
    if marks:
        times = ", ".join(f"{safe(mark.name)} {duration(mark.seconds)}" for mark in marks)
        screen.print(f"stages: {times}", soft_wrap=True)
    _print_training(source, screen)
    for warning in finished_training_warnings(run):
        screen.print(f"warning: {safe(warning)}", style="yellow", soft_wrap=True)
    _print_results(source, folder, screen)


def _print_training(source: "Source", screen: "Console") -> None:
    from mada.report.training import read_curves

    all_curves = read_curves(source.run)
    for role in dict.fromkeys(curve.role for curve in all_curves):
        curves = [curve for curve in all_curves if curve.role == role]
        values = [point.value for curve in curves for point in curve.rollouts]
        low, high = min(values, default=0.0), max(values, default=0.0)
        steps = max((point.step for curve in curves for point in curve.rollouts), default=0)
        span = f"between {_percent(low)} and {_percent(high)}"
        course = f"accuracy of rollouts over {counted(steps, 'step')}, {span}"
        screen.print()
        screen.print(f"{role}: {course if values else 'no rollouts yet'}")
        width = max(len(curve.agent) for curve in curves)
        room = max(8, min(WIDEST, screen.width - width - 34))
        for curve in curves:
            line = sparkline([point.value for point in curve.rollouts], low=low, high=high, width=room)
            screen.print(f"  {safe(curve.agent):<{width}}  {line}{_validated(curve)}", soft_wrap=True)


def _validated(curve: "TrainingCurve") -> str:
    if not curve.validation:
        return ""
    first = curve.validation[0].accuracy
    best = next((point for point in curve.validation if point.is_best), curve.validation[-1])
    return f"  validation {_percent(first)} → {_percent(best.accuracy)}"


def _print_results(source: "Source", folder: Path, screen: "Console") -> None:
    from mada.evaluation.summary import summarize
    from mada.report.forms.terminal import print_table
    from mada.report.publishing import PAGE_FILE
    from mada.report.sections.results import headline_sentence, headline_tables

    screen.print()
    if source.grid is None:
        begun = "the evaluation has begun; there are no results before a seed is finished"
        screen.print(begun if source.left_out else "not evaluated yet")
        return
    if source.left_out:
        screen.print(f"the evaluation is not finished; left out: {safe(str(source.left_out))}", soft_wrap=True)
    summary = summarize(source.grid)
    for table in headline_tables(summary):
        print_table(table, screen)
        screen.print()
    screen.print(printable(headline_sentence(summary)), style="bold", soft_wrap=True)
    page = folder / PAGE_FILE
    if page.is_file():
        screen.print(f"report: {safe(str(page))}", soft_wrap=True)
    else:
        command = f"mada report {shlex.quote(safe(str(folder)))}"
        screen.print(f"for a page with tables, charts and every debate: {command}", soft_wrap=True)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
