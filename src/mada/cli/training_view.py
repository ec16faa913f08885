"""What a person sees while agents train: a live table in a terminal, a line now and then everywhere else."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mada.cli.terminal import console as plain_console
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
    from rich.live import Live
    from rich.table import Table

    from mada.runs.records import AgentStep, ValidationStep

SECONDS_BETWEEN_LINES = 10.0
# The table without its sparklines, so that they can have the rest of the line.
TABLE_WIDTH = 74
# Of its best accuracy: an agent that falls below this share does not only have bad luck with its samples.
FALLEN = 0.5
_BARS = "▁▂▃▄▅▆▇█"


def training_view(title: str, *, console: "Console | None" = None) -> "TrainingView":
    """Return the view that suits where output goes: live in a terminal, lines in a file or a pipe."""
    console = console or plain_console()
    return LiveView(title, console=console) if console.is_terminal else LineView(title, console=console)


class TrainingView:
    """A subscriber to a training's events that remembers what to show. Its two kinds show it.

    with training_view("generators") as view:
        await Trainer(…, events=Events(view)).train()
    """

    def __init__(self, title: str, *, console: "Console", clock: Callable[[], float] = time.monotonic) -> None:
        self.title = title
        self.console = console
        self.plan: TrainingStarted | None = None
        self.report: StepFinished | None = None
        self.accuracies: dict[str, list[float]] = {}
        self.best: dict[str, BestStep | ValidationStep] = {}
        self.latest: dict[str, ValidationStep] = {}
        self.doing = "starting"
        self.checkpoint: int | None = None
        self._clock = clock
        self._started = clock()

    def __call__(self, event: Event) -> None:
        """Remember what an event says."""
        match event:
            case TrainingStarted():
                self.plan = event
                self.best.update(event.best)
                self.checkpoint = event.first_step - 1 if event.checkpoint else None
                self._started = self._clock()  # the time left is estimated from this session alone
            case StepProgress(phase, done, of):
                self.doing = phase + (f" {done:,} of {of:,}" if phase != "learning" else "")
            case StepFinished():
                self.report = event
                for name, agent in event.agents.items():
                    if agent.accuracy is not None:
                        self.accuracies.setdefault(name, []).append(agent.accuracy)
            case ValidationFinished(agents=agents):
                self.best.update({name: agent for name, agent in agents.items() if agent.is_best})
                self.latest = dict(agents)
            case CheckpointWritten(step):
                self.checkpoint = step
            case TrainingFinished():
                self.doing = "done"
            case _:
                pass

    def close(self) -> None:
        """End the view; a training that is not finished was stopped."""
        if self.doing != "done":
            self.doing = "stopped"

    def warning(self) -> str | None:
        """Say which agents have fallen far below their best by the last validation: more steps alone seldom help."""
        fallen = [
            f"{name} fell from {percent(best.accuracy, 1)} after step {best.step:,} to {percent(now.accuracy, 1)}"
            for name, now in self.latest.items()
            if (best := self.best.get(name)) and now.accuracy < FALLEN * (best.accuracy or 0.0)
        ]
        if not fallen:
            return None
        advice = "lower training.learning_rate or raise training.batch_size. The best adapters are kept"
        return f"{'; '.join(fallen)}: {advice}"

    def seconds_left(self) -> float | None:
        """Estimate what is left from the steps of this session, validations included; None before the first."""
        if self.plan is None or self.report is None:
            return None
        taken = self.report.step - self.plan.first_step + 1
        return (self._clock() - self._started) / taken * (self.plan.total_steps - self.report.step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LineView(TrainingView):
    """One line a step, but not more often than a log wants: the first, the last, and one every few seconds."""

    _last_line: float | None = None

    def __call__(self, event: Event) -> None:
        """Print what an event says, steps only if enough time has passed."""
        super().__call__(event)
        match event:
            case TrainingStarted(first_step=first, checkpoint=Path() as checkpoint):
                self._print(f"{self.title}: going on after step {first - 1} ({checkpoint})")
            case StepFinished():
                self._print_step(event)
            case ValidationFinished(step, agents=agents):
                accuracies = ", ".join(
                    f"{name} {percent(agent.accuracy, 1)}{' (best so far)' if agent.is_best else ''}"
                    for name, agent in agents.items()
                )
                self._print(f"{self.title}: validation after step {step}: {accuracies}")
                if warning := self.warning():
                    self._print(f"{self.title}: {warning}")
            case _:
                pass

    def _print_step(self, event: StepFinished) -> None:
        now = self._clock()
        due = self._last_line is None or now - self._last_line >= SECONDS_BETWEEN_LINES
        if due or event.step == event.total_steps:
            self._last_line = now
            agents = " | ".join(_agent_line(agent) for agent in event.agents.values())
            left = duration(self.seconds_left())
            self._print(f"{self.title}: step {event.step}/{event.total_steps}, {left} left | {agents}")

    def _print(self, line: str) -> None:
        # Never wrapped: one line is one line, for grep.
        self.console.print(line, soft_wrap=True)


class LiveView(TrainingView):
    """A table that follows the training, and stays on the screen when it ends."""

    _live: "Live | None" = None

    def __call__(self, event: Event) -> None:
        """Start the table with the training, stop it with its end."""
        super().__call__(event)
        match event:
            case TrainingStarted():
                from rich.live import Live

                self._live = Live(get_renderable=self.render, console=self.console, refresh_per_second=4)
                self._live.start()
            case TrainingFinished():
                self.close()
            case _:
                pass

    def close(self) -> None:
        """End the view, which stays on the screen."""
        super().close()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def render(self) -> "RenderableType":
        """Draw everything as it is now."""
        from rich.console import Group
        from rich.text import Text

        if self.plan is None:  # nothing has begun, and perhaps never will
            return Group()
        parts = [self._progress(), self._state()]
        if self.report:
            parts += ["", self._table(), "", self._rates()]
        if warning := self.warning():
            parts += [Text(warning, style="yellow")]
        return Group(*parts)

    def _progress(self) -> "RenderableType":
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        step = self.report.step if self.report else (self.plan.first_step - 1 if self.plan else 0)
        total = self.plan.total_steps if self.plan else 0
        left = self.seconds_left()
        times = f"{duration(left)} left" if left is not None and step < total else ""
        line = Table.grid(padding=(0, 2))
        line.add_row(
            Text(self.title, style="bold"),
            f"step {step:,} of {total:,}",
            ProgressBar(total=max(total, 1), completed=step, width=max(8, min(30, self.console.width - 60))),
            times,
        )
        return line

    def _state(self) -> "RenderableType":
        from rich.text import Text

        facts = [self.doing]
        if self.report is not None:
            facts.append(f"{duration(self.report.seconds)} a step")
        if self.checkpoint is not None:
            facts.append(f"checkpoint at step {self.checkpoint:,}")
        return Text(" · ".join(facts), style="dim", overflow="ellipsis", no_wrap=True)

    def _rates(self) -> "RenderableType":
        from rich.text import Text

        agents = list(self.report.agents.values()) if self.report else []
        sampled = sum(agent.rollout_tokens_per_second or 0.0 for agent in agents)
        learnt = sum(agent.learn_tokens_per_second or 0.0 for agent in agents)
        return Text(f"tokens per second: {sampled:,.0f} sampled, {learnt:,.0f} learnt", style="dim")

    def _table(self) -> "Table":
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
        table.add_column("agent", no_wrap=True, vertical="bottom")
        for name in ("reward", "accuracy", "KL", "length", "cut\noff", "no\nspread", "best\n(step)"):
            table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
        width = max(4, min(24, self.console.width - TABLE_WIDTH))
        for name, agent in self.report.agents.items() if self.report else ():
            history = sparkline(self.accuracies.get(name, []), width=width)
            table.add_row(
                name,
                f"{agent.reward:.2f}",
                f"{history} {percent(agent.accuracy):>4}",
                small(agent.kl),
                f"{agent.length:,.0f}",
                percent(agent.truncated_share),
                percent(agent.zero_spread_share),
                self._best(name),
            )
        return table

    def _best(self, agent: str) -> str:
        best = self.best.get(agent)
        return "–" if best is None else f"{percent(best.accuracy, 1)} ({best.step:,})"


def sparkline(values: Sequence[float], *, width: int, low: float = 0.0, high: float = 1.0) -> str:
    """Draw values from `low` to `high` as bars, at most `width` of them, each the mean of equally many steps."""
    if not values:
        return ""
    columns = min(width, len(values))
    cuts = [len(values) * column // columns for column in range(columns + 1)]
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


def _agent_line(agent: "AgentStep") -> str:
    numbers = f"reward {agent.reward:.2f}, accuracy {percent(agent.accuracy)}, KL {small(agent.kl)}"
    return f"{agent.agent}: {numbers}, {counted(round(agent.length), 'token')}"
