"""What a person sees while a recipe runs: the stage, how far it is, and what came of each."""

import time
from typing import TYPE_CHECKING, cast

from mada.cli.terminal import safe
from mada.cli.training_view import SECONDS_BETWEEN_LINES, TrainingView, percent, training_view
from mada.events import Event, Log, Progress, StageFinished, StageSkipped, StageStarted, TrainingStarted
from mada.pipeline.stages import stage_named
from mada.text import counted, duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from mada.run import StageMark

ENOUGH_TO_TELL = 50
SHARE_TO_TELL = 0.02
"""How much of a stage must be done before the time left is estimated: so many, or this share of the rest."""


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
                    self._print(f"    warning: {safe(warning)}", style="yellow")
                self.stage = None
            case Progress(done, of, note):
                self._show_progress(done, of, note)
            case Log(message):
                self._print(f"    {safe(message)}", style="dim")
            case TrainingStarted(name):
                self._training = training_view(name, console=self._console)
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
        if self._first_done is None:
            self._first_done = done
        if self._console.is_terminal:
            self._move_bar(done, of, note)
            return
        now = time.monotonic()
        if self._last_line is None or now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            left = self._seconds_left(done, of)
            parts = [f"{done:,} of {of:,}", f"{duration(left)} left" if left is not None else "", note]
            self._print(f"{self.stage}: {', '.join(part for part in parts if part)}")

    def _move_bar(self, done: int, of: int, note: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            self._bar = Bar(
                TextColumn("   "),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
                TextColumn("left"),
                console=self._console,
                transient=True,
            )
            self._bar.add_task("", total=of, completed=done, note=note)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, note=note)

    def _seconds_left(self, done: int, of: int) -> float | None:
        fresh, left = done - (self._first_done or 0), of - done
        # Many are under way at once, so the first comes late and others right behind it: of few nothing can be told.
        if not fresh or fresh < min(ENOUGH_TO_TELL, SHARE_TO_TELL * left):
            return None
        return (time.monotonic() - self._started) / fresh * left

    def _print(self, line: str, *, style: str | None = None) -> None:
        self._console.print(line, style=style, soft_wrap=True)


def outcome(mark: "StageMark") -> str:
    """Say in a line what a finished stage has to say."""
    summary = mark.summary
    if mark.name == "split":
        parts = [f"{name} {value:,}" for name, value in summary.items() if isinstance(value, int) and value]
        return ", ".join(parts)
    if mark.name == "screen":
        learnable, of = cast("int", summary["learnable"]), cast("int", summary["problems"])
        return f"{learnable:,} of {counted(of, 'problem')} to learn from: {_by_right(mark)}"
    if mark.name in ("generators", "critics"):
        best = cast("dict[str, dict[str, float]]", summary["best"])
        kept = [f"{seat} {percent(one['accuracy'], 1)} at step {one['step']}" for seat, one in best.items()]
        chosen = f"{summary['learnt from']:,} of {summary['examples']:,} problems; " if "learnt from" in summary else ""
        return f"{chosen}best on the validation set: {', '.join(kept)}"
    if mark.name == "critic-data":
        problems = counted(cast("int", summary["examples"]), "problem")
        return f"{problems} by how many generators were right: {_by_right(mark)}"
    if mark.name == "evaluate":
        asked, sampled = (cast("int", summary[name]) for name in ("completions wanted", "of these sampled"))
        copies = cast("int", summary.get("benchmark copies in training", 0))
        warning = f"; warning: {counted(copies, 'training problem')} copied from these benchmarks" if copies else ""
        return f"{sampled:,} completions sampled, {asked - sampled:,} shared between systems{warning}"
    return ": ".join(str(summary[key]) for key in ("file", "content") if key in summary) or "done"


def _by_right(mark: "StageMark") -> str:
    right = cast("dict[str, int]", mark.summary["by right answers"])
    return ", ".join(f"{number} right: {count:,}" for number, count in right.items())
