import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mada.cli.training_view import TrainingView, sparkline
from mada.events import (
    BestStep,
    CheckpointWritten,
    StepFinished,
    StepProgress,
    TrainingFinished,
    TrainingStarted,
    ValidationFinished,
)
from mada.runs.records import AgentStep, ValidationStep

AGENTS = ("generator-1", "generator-2")
PLAN = TrainingStarted("generators", AGENTS, 1, 100, {}, {})
BLANK: dict[str, Any] = dict.fromkeys(AgentStep.__dataclass_fields__, 0.0)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def agent(name: str, step: int, **numbers: Any) -> AgentStep:
    return AgentStep(**BLANK | {"step": step, "agent": name, "accuracy": 0.5, "length": 812.4, **numbers})


def step(number: int, **numbers: Any) -> StepFinished:
    agents = {name: agent(name, number, **numbers) for name in AGENTS}
    return StepFinished(number, 100, agents, rollout_seconds=8.0, learn_seconds=2.0)


def look(number: int, *accuracies: float, is_best: bool = True) -> ValidationFinished:
    own = zip(AGENTS, accuracies or (0.625, 0.625), strict=True)
    agents = {name: ValidationStep(number, name, accuracy, 800.0, 0.1, is_best) for name, accuracy in own}
    return ValidationFinished(number, 100, agents, seconds=5.0)


def console(*, terminal: bool, width: int = 80) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=width, markup=False, highlight=False, color_system=None
    )


def shown(view: TrainingView) -> str:
    file = view.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


MakeLive = Callable[..., TrainingView]


@pytest.fixture
def live() -> Iterator[MakeLive]:
    """Make live views that end with the test."""
    with ExitStack() as views:

        def make(title: str = "generators", *, width: int = 80, clock: Clock | None = None) -> TrainingView:
            view = TrainingView(title, console(terminal=True, width=width), clock=clock or Clock())
            return views.enter_context(view)

        yield make


def test_lines_come_at_the_first_and_last_step_and_every_few_seconds():
    clock = Clock()
    view = TrainingView("generators", console(terminal=False), clock=clock)
    with view:
        view(PLAN)
        for number in range(1, 101):
            clock.now += 1.0
            view(step(number, kl=0.00312, reward=1.234))
    lines = shown(view).splitlines()
    assert [line.split(",")[0] for line in lines] == [
        f"generators: step {number}/100" for number in (1, 11, 21, 31, 41, 51, 61, 71, 81, 91, 100)
    ]
    assert lines[1] == (
        "generators: step 11/100, 1 min 29 s left | generator-1: reward 1.23, accuracy 50%, KL 0.00312, 812 tokens | "
        "generator-2: reward 1.23, accuracy 50%, KL 0.00312, 812 tokens"
    )


def test_validations_and_resuming_always_get_a_line():
    view = TrainingView("critics", console(terminal=False, width=20), clock=Clock())
    view(TrainingStarted("critics", AGENTS, 21, 100, {}, {}, Path("critics/checkpoints/step-000020")))
    view(StepProgress("validating", 1, 2))
    view(look(25))
    view(look(50, is_best=False))
    assert shown(view).splitlines() == [
        "critics: going on after step 20 (critics/checkpoints/step-000020)",
        "critics: validation after step 25: generator-1 62.5% (best so far), generator-2 62.5% (best so far)",
        "critics: validation after step 50: generator-1 62.5%, generator-2 62.5%",
    ]


FALLEN = (
    "generator-2 fell from 62.5% after step 25 to 30.0%: lower training.learning_rate or raise training.batch_size. "
    "The best adapters are kept"
)


def test_an_agent_below_half_of_its_best_is_a_warning_until_it_has_recovered():
    view = TrainingView("generators", console(terminal=False), clock=Clock())
    view(PLAN)
    for number, accuracies in {0: (0.0, 0.0), 25: (0.625, 0.625), 50: (0.3125, 0.30), 75: (0.5, 0.5)}.items():
        view(look(number, *accuracies, is_best=number <= 25))
    assert [line for line in shown(view).splitlines() if "validation" not in line] == [f"generators: {FALLEN}"]


def drawn(view: TrainingView) -> list[str]:
    other = console(terminal=True, width=view.console.width)
    other.print(view.render())
    assert isinstance(other.file, io.StringIO)
    return [line.rstrip() for line in other.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_view_shows_all_of_it_within_the_terminal(live: MakeLive, width: int):
    clock = Clock()
    view = live(width=width, clock=clock)
    view(PLAN)
    view(look(0))
    for number in range(1, 26):
        clock.now += 10.0
        numbers = {"reward": 1.5, "kl": 0.01234, "truncated_share": 0.125, "zero_spread_share": 0.25}
        rates = {"rollout_tokens_per_second": 500.0, "learn_tokens_per_second": 1200.0}
        view(step(number, **numbers, **rates))
    view(CheckpointWritten(25, Path()))
    view(StepProgress("sampling", 3, 8))
    lines = drawn(view)
    assert lines[0].startswith("generators  step 25 of 100  ━")
    assert lines[0].endswith("12 min left")
    assert lines[1] == "sampling 3 of 8 · 10 s a step · checkpoint at step 25"
    assert lines[4].split() == ["agent", "reward", "accuracy", "KL", "length", "off", "spread", "(step)"]
    bars = "▅" * (6 if width == 80 else 24)
    assert lines[5].split() == ["generator-1", "1.50", bars, "50%", "0.0123", "812", "12%", "25%", "62.5%", "(0)"]
    assert lines[-1] == "tokens per second: 1,000 sampled, 2,400 learnt"
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)


def test_the_live_view_is_there_before_the_first_step_and_stays_after_the_last(live: MakeLive):
    view = live()
    assert drawn(view) == [], "nothing is shown of a training that may be refused"
    view(PLAN)
    assert drawn(view)[1] == "starting"
    view(StepProgress("learning", 0, 1))
    assert drawn(view)[1] == "learning"
    view(step(100))
    view(TrainingFinished("generators"))
    assert drawn(view)[1].startswith("done")
    assert "generator-1" in shown(view)


def test_an_interrupted_training_is_shown_as_stopped(live: MakeLive):
    view = live()
    view(PLAN)
    with pytest.raises(KeyboardInterrupt), view:
        raise KeyboardInterrupt
    assert drawn(view)[1] == "stopped"


def test_a_resumed_view_knows_the_best_from_before(live: MakeLive):
    view = live()
    view(TrainingStarted("generators", AGENTS, 51, 100, {}, {"generator-1": BestStep(40, 0.7)}, Path()))
    assert drawn(view)[0].startswith("generators  step 50 of 100")
    view(step(51))
    lines = drawn(view)
    assert lines[5].endswith("70.0% (40)")
    assert lines[6].endswith("–")


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        ([], 4, ""),
        ([0.0, 1.0], 4, "▁█"),
        ([0.0, 0.0, 1.0, 1.0], 2, "▁█"),
        ([0.5] * 7, 3, "▅▅▅"),
        ([-1.0, 2.0], 2, "▁█"),
    ],
)
def test_sparklines(values, width, expected):
    assert sparkline(values, width=width) == expected
