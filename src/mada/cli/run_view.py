"""What the terminal shows while a recipe runs: the stage, its progress and its result."""

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import typer

from mada.cli.terminal import console as plain_console
from mada.cli.training_view import SECONDS_BETWEEN_LINES, TrainingView, percent
from mada.errors import EngineError, EvaluationError
from mada.events import Event, Log, Progress, StageFinished, StageSkipped, StageStarted, TrainingStarted
from mada.pipeline.stages import stage_named
from mada.text import counted, duration, sanitize

if TYPE_CHECKING:
    from collections.abc import Generator

    from rich.console import Console
    from rich.progress import Progress as Bar

    from mada.runs import StageMark

MIN_DONE = 50
MIN_SHARE = 0.02
"""How much of a stage must be done before the time left is estimated: so many, or this share of the rest."""


@contextmanager
def shown_progress(*, resume: str) -> "Generator[RunView]":
    """Show progress; an error message, or that of Ctrl-C, ends with the command that resumes the work."""
    view = RunView(plain_console())
    kept = f"what is finished is kept. To continue: {resume}"
    try:
        yield view
    except KeyboardInterrupt:
        view.close()
        where = f" in {view.stage}" if view.stage else ""
        typer.echo(f"\nmada: stopped{where}; {kept}", err=True)
        raise typer.Exit(130) from None
    except (EngineError, EvaluationError) as error:
        raise type(error)(f"{error}; {kept}") from None
    finally:
        view.close()


class RunView:
    """A subscriber that shows a run: a live bar or the training's table in a terminal, plain lines everywhere else."""

    def __init__(self, console: "Console") -> None:
        self.stage: str | None = None
        self._console = console
        self._bar: Bar | None = None
        self._training: TrainingView | None = None
        self._started = 0.0
        self._last_line: float | None = None
        self._first_done: int | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case StageStarted(name, number, of):
                self.stage = name
                self._started, self._last_line, self._first_done = time.monotonic(), None, None
                self._print(f"{number}/{of} {name}: {stage_named(name).does}", style="bold")
            case StageSkipped(mark):
                self._print(f"{mark.name}: done before", style="dim")
            case StageFinished(mark):
                self.close()
                self._print(f"    {outcome(mark)} ({duration(mark.seconds)})")
                for warning in cast("list[str]", mark.summary.get("warnings", [])):
                    self._print(f"    warning: {sanitize(warning)}", style="yellow")
                self.stage = None
            case Progress(done, of, note):
                self._show_progress(done, of, note)
            case Log(message):
                self._print(f"    {sanitize(message)}", style="dim")
            case TrainingStarted(name):
                self._training = TrainingView(name, self._console)
            case _:
                pass
        if self._training is not None:
            self._training(event)

    def close(self) -> None:
        """Take the bar away, and end a training's view."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if self._training is not None:
            self._training.close()
            self._training = None

    def _show_progress(self, done: int, of: int, note: str) -> None:
        """Move the bar, or print how far the stage is if enough time has passed."""
        if self._console.is_terminal:
            self._move_bar(done, of, note)
            return
        if self._first_done is None:
            self._first_done = done
        now = time.monotonic()
        if self._last_line is None or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            fresh, left = done - self._first_done, of - done
            parts = [f"{done:,} of {of:,}", note]
            # Many are under way at once: the first comes late and others right behind it, so few say nothing.
            if fresh and fresh >= min(MIN_DONE, MIN_SHARE * left):
                parts.insert(1, f"{duration((now - self._started) / fresh * left)} left")
            self._print(f"{self.stage}: {', '.join(filter(None, parts))}")

    def _move_bar(self, done: int, of: int, note: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            columns = ("   ", BarColumn(), MofNCompleteColumn(), "{task.fields[note]}", TimeRemainingColumn(), "left")
            self._bar = Bar(*columns, console=self._console, transient=True)
            self._bar.add_task("", total=of, completed=done, note=note)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, note=note)

    def _print(self, line: str, *, style: str | None = None) -> None:
        self._console.print(line, style=style, soft_wrap=True)


def outcome(mark: "StageMark") -> str:
    """Return a line about the result of a finished stage."""
    from mada.pipeline import results

    summary = mark.summary
    match mark.name:
        case "split":
            return ", ".join(f"{name} {value:,}" for name, value in summary.items() if isinstance(value, int) and value)
        case "screen":
            result = results.ScreenResult.model_validate(summary)
            problems = counted(result.problems, "problem")
            return f"{result.learnable:,} of {problems} to learn from: {_by_right(result.by_right)}"
        case "generators" | "critics":
            result = results.TrainingStageResult.model_validate(summary)
            best = ", ".join(
                f"{name} {percent(one.accuracy, 1)} at step {one.step}" for name, one in result.best.items()
            )
            learnt_from = result.learnt_from
            chosen = "" if learnt_from is None else f"{learnt_from:,} of {result.examples:,} problems; "
            return f"{chosen}best on the validation set: {best}"
        case "critic-data":
            result = results.CriticDataResult.model_validate(summary)
            return (
                f"{counted(result.examples, 'problem')} by how many generators were right: {_by_right(result.by_right)}"
            )
        case "evaluate":
            result = results.EvaluationResult.model_validate(summary)
            copies = counted(result.copies_in_training or 0, "training problem")
            warning = f"; warning: {copies} copied from these benchmarks" if result.copies_in_training else ""
            shared = result.completions - result.sampled
            return f"{result.sampled:,} completions sampled, {shared:,} shared between systems{warning}"
        case _:
            result = results.ReportResult.model_validate(summary)
            return f"{result.file}: {result.content}"


def _by_right(counts: "dict[int, int]") -> str:
    return ", ".join(f"{number} right: {count:,}" for number, count in counts.items())
