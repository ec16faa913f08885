"""What a person sees while agents train: a live table in a terminal, a line now and then everywhere else."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mada.cli.terminal import View
from mada.events import (
    BestStep,
    CheckpointWritten,
    Event,
    StepFinished,
    StepProgress,
    TrainingFinished,
    TrainingStarted,
    ValidationFinished,
)
from mada.text import counted, duration

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from mada.runs.records import ValidationStep

SECONDS_BETWEEN_LINES = 10.0
# The table without its sparklines, so that they can have the rest of the line.
TABLE_WIDTH = 74
# Of its best accuracy: an agent that falls below this share does not only have bad luck with its samples.
FALLEN = 0.5
_BARS = "▁▂▃▄▅▆▇█"


class TrainingView(View):
    """A subscriber to a training's events that shows them.

    with TrainingView("generators") as view:
        await Trainer(…, events=Events(view)).train()
    """

    def __init__(
        self, title: str, console: "Console | None" = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, clock=clock)
        self.title = title
        self.plan: TrainingStarted | None = None
        self.report: StepFinished | None = None
        self.accuracies: dict[str, list[float]] = {}
        self.best: dict[str, BestStep | ValidationStep] = {}
        self.latest: dict[str, ValidationStep] = {}
        self.doing = "starting"
        self.checkpoint: int | None = None
        self._started = clock()
        self._last_line: float | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case TrainingStarted(first_step=first, checkpoint=checkpoint):
                self.plan = event
                self.best.update(event.best)
                self._started = self.clock()  # the time left is estimated from this session alone
                if checkpoint:
                    self.checkpoint = first - 1
                    self.line(f"{self.title}: going on after step {first - 1} ({checkpoint})")
                self.start()
            case StepProgress(phase, done, of):
                self.doing = phase + (f" {done:,} of {of:,}" if phase != "learning" else "")
            case StepFinished():
                self._show_step(event)
            case ValidationFinished(step, agents=agents):
                self.best.update({name: agent for name, agent in agents.items() if agent.is_best})
                self.latest = dict(agents)
                accuracies = ", ".join(
                    f"{name} {percent(agent.accuracy, 1)}{' (best so far)' if agent.is_best else ''}"
                    for name, agent in agents.items()
                )
                self.line(f"{self.title}: validation after step {step}: {accuracies}")
                if warning := self.warning():
                    self.line(f"{self.title}: {warning}")
            case CheckpointWritten(step):
                self.checkpoint = step
            case TrainingFinished():
                self.doing = "done"
                self.close()
            case _:
                pass

    def close(self, *, erase: bool = False) -> None:
        """End the view, which stays on the screen; a training that is not finished was stopped."""
        if self.doing != "done":
            self.doing = "stopped"
        super().close(erase=erase)

    def warning(self) -> str | None:
        """Say which agents have fallen far below their best by the last validation: more steps alone seldom help."""
        fallen = [
            f"{name} fell from {percent(best.accuracy, 1)} after step {best.step:,} to {percent(now.accuracy, 1)}"
            for name, now in self.latest.items()
            if (best := self.best.get(name)) and now.accuracy < FALLEN * (best.accuracy or 0.0)
        ]
        advice = "lower training.learning_rate or raise training.batch_size. The best adapters are kept"
        return f"{'; '.join(fallen)}: {advice}" if fallen else None

    def seconds_left(self) -> float | None:
        """Estimate what is left from the steps of this session, validations included; None before the first."""
        if self.plan is None or self.report is None:
            return None
        taken = self.report.step - self.plan.first_step + 1
        return (self.clock() - self._started) / taken * (self.plan.total_steps - self.report.step)

    def _show_step(self, event: StepFinished) -> None:
        self.report = event
        for name, agent in event.agents.items():
            if agent.accuracy is not None:
                self.accuracies.setdefault(name, []).append(agent.accuracy)
        now = self.clock()
        due = self._last_line is None or now - self._last_line >= SECONDS_BETWEEN_LINES
        if due or event.step == event.total_steps:
            self._last_line = now
            agents = " | ".join(
                f"{name}: reward {agent.reward:.2f}, accuracy {percent(agent.accuracy)}, KL {small(agent.kl)}, "
                f"{counted(round(agent.length), 'token')}"
                for name, agent in event.agents.items()
            )
            left = duration(self.seconds_left())
            self.line(f"{self.title}: step {event.step}/{event.total_steps}, {left} left | {agents}")

    def render(self) -> "RenderableType":
        """Draw everything as it is now."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if self.plan is None:
            return Group()
        step, total = self.report.step if self.report else self.plan.first_step - 1, self.plan.total_steps
        left = self.seconds_left()
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(self.title, style="bold"),
            f"step {step:,} of {total:,}",
            ProgressBar(total=max(total, 1), completed=step, width=max(8, min(30, self.console.width - 60))),
            f"{duration(left)} left" if left is not None and step < total else "",
        )
        facts = [self.doing]
        if self.report is not None:
            facts.append(f"{duration(self.report.seconds)} a step")
        if self.checkpoint is not None:
            facts.append(f"checkpoint at step {self.checkpoint:,}")
        parts = [head, Text(" · ".join(facts), style="dim", overflow="ellipsis", no_wrap=True)]
        if self.report:
            agents = self.report.agents.values()
            sampled = sum(agent.rollout_tokens_per_second or 0.0 for agent in agents)
            learnt = sum(agent.learn_tokens_per_second or 0.0 for agent in agents)
            rates = Text(f"tokens per second: {sampled:,.0f} sampled, {learnt:,.0f} learnt", style="dim")
            parts += ["", self._table(self.report), "", rates]
        if warning := self.warning():
            parts.append(Text(warning, style="yellow"))
        return Group(*parts)

    def _table(self, report: StepFinished) -> "Table":
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
        table.add_column("agent", no_wrap=True, vertical="bottom")
        for name in ("reward", "accuracy", "KL", "length", "cut\noff", "no\nspread", "best\n(step)"):
            table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
        width = max(4, min(24, self.console.width - TABLE_WIDTH))
        for name, agent in report.agents.items():
            history = sparkline(self.accuracies.get(name, []), width=width)
            best = self.best.get(name)
            table.add_row(
                name,
                f"{agent.reward:.2f}",
                f"{history} {percent(agent.accuracy):>4}",
                small(agent.kl),
                f"{agent.length:,.0f}",
                percent(agent.truncated_share),
                percent(agent.zero_spread_share),
                f"{percent(best.accuracy, 1)} ({best.step:,})" if best else "–",
            )
        return table


def sparkline(values: Sequence[float], *, width: int, low: float = 0.0, high: float = 1.0) -> str:
    """Draw values from `low` to `high` as bars, at most `width` of them, each the mean of equally many steps."""
    columns = min(width, len(values))
    cuts = [len(values) * column // columns for column in range(columns + 1)] if values else []
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(cuts)]
    # Where all values are the same there is neither high nor low.
    shares = [(mean - low) / (high - low) if high > low else 0.5 for mean in means]
    return "".join(_BARS[min(len(_BARS) - 1, max(0, int(share * len(_BARS))))] for share in shares)


def percent(share: float | None, digits: int = 0) -> str:
    """Write a share as a percentage, a missing one as a dash."""
    return "–" if share is None else f"{share:.{digits}%}"


def small(value: float | None) -> str:
    """Write a number that is often tiny with three digits that count, a missing one as a dash."""
    return "–" if value is None else f"{value:.3g}" if abs(value) < 10 else f"{value:,.0f}"
