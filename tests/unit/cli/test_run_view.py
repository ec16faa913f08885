"""What a run says of itself: stage by stage, in a file or a pipe by lines, in a terminal by a bar."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from factories import stage_summary
from mada.cli.run_view import RunView, outcome
from mada.events import Progress, StageFinished, StageSkipped, StageStarted
from mada.runs import StageMark


def mark(name, seconds=12.3, **summary):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    summary = summary if name == "split" else stage_summary(**summary)
    return StageMark(name=name, started_at=now, ended_at=now, seconds=seconds, summary=summary)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr("mada.cli.run_view.time.monotonic", lambda: now[0])
    return now


def view(*, terminal=False):
    console = Console(
        file=io.StringIO(), force_terminal=terminal, width=60, markup=False, highlight=False, color_system=None
    )
    return RunView(console), console


def shown(console):
    return console.file.getvalue()


def test_a_stage_is_announced_and_its_outcome_told():
    screen, console = view()
    screen(StageSkipped(mark("split")))
    screen(StageStarted("generators", 2, 6))
    assert screen.stage == "generators"
    best = {"generator-1": {"step": 10, "accuracy": 0.625}, "generator-2": {"step": 0, "accuracy": 0.5}}
    screen(StageFinished(mark("generators", 75.0, steps=20, best=best)))
    assert screen.stage is None
    assert shown(console).splitlines() == [
        "split: done before",
        "2/6 generators: train the generators",
        "    best on the validation set: generator-1 62.5% at step 10, generator-2 50.0% at step 0 (1 min 15 s)",
    ]


@pytest.mark.parametrize(
    ("stage", "summary", "said"),
    [
        (
            "split",
            {"problems": 20000, "benchmark copies dropped": 0, "duplicates dropped": 13, "subset-1": 6},
            "problems 20,000, duplicates dropped 13, subset-1 6",
        ),
        (
            "screen",
            {"problems": 2880, "learnable": 1040, "by right answers": {"0": 1800, "1": 1040, "2": 40}},
            "1,040 of 2,880 problems to learn from: 0 right: 1,800, 1 right: 1,040, 2 right: 40",
        ),
        (
            "critics",
            {"best": {"critic-1": {"step": 4, "accuracy": 0.5}}, "examples": 2880, "learnt from": 1012},
            "1,012 of 2,880 problems; best on the validation set: critic-1 50.0% at step 4",
        ),
        (
            "critic-data",
            {"examples": 1234, "by right answers": {"0": 34, "1": 1200}},
            "1,234 problems by how many generators were right: 0 right: 34, 1 right: 1,200",
        ),
        (
            "critic-data",
            {"examples": 1, "by right answers": {"0": 1}},
            "1 problem by how many generators were right: 0 right: 1",
        ),
        (
            "evaluate",
            {"completions wanted": 2224, "of these sampled": 1144},
            "1,144 completions sampled, 1,080 shared between systems",
        ),
        ("report", {"file": "report.html", "content": "9 tables"}, "report.html: 9 tables"),
    ],
)
def test_what_came_of_a_stage(stage, summary, said):
    assert outcome(mark(stage, **summary)) == said


def test_a_file_gets_a_line_at_first_and_then_every_ten_seconds(clock):
    screen, console = view()
    screen(StageStarted("critic-data", 3, 6))
    screen(Progress(20, 100))
    for done in range(21, 61):
        clock[0] += 0.5
        screen(Progress(done, 100))
    lines = shown(console).splitlines()[1:]
    # 20 were there before; 20 more took 10 s, so 60 take 30 s
    assert lines == [
        "critic-data: 20 of 100",
        "critic-data: 40 of 100, 30 s left",
        "critic-data: 60 of 100, 20 s left",
    ]


def test_of_the_first_few_no_time_is_told(clock):
    """49 of 5,000 say nothing yet, 50 do; of 100 that are left, 2 do."""
    screen, console = view()
    screen(StageStarted("evaluate", 5, 6))
    for done in (0, 49, 50, 4900):
        screen(Progress(done, 5000))
        clock[0] += 10
    lines = shown(console).splitlines()[1:]
    assert lines[:2] == ["evaluate: 0 of 5,000", "evaluate: 49 of 5,000"]
    assert lines[2].startswith("evaluate: 50 of 5,000, 33 min left")
    screen, console = view()
    screen(StageStarted("evaluate", 5, 6))
    for done in (4899, 4900, 4901):
        screen(Progress(done, 5000))
        clock[0] += 10
    assert shown(console).splitlines()[2:] == [
        "evaluate: 4,900 of 5,000",
        "evaluate: 4,901 of 5,000, 16 min left",
    ]


def test_a_terminal_gets_a_bar_that_goes_away():
    screen, console = view(terminal=True)
    screen(StageStarted("evaluate", 5, 6))
    screen(Progress(1, 4, "team 75.0% right"))
    bar = screen._bar
    assert bar is not None
    screen(Progress(3, 4, "team 66.7% right"))
    assert screen._bar is bar, "one bar for a stage"
    [task] = bar.tasks
    assert (task.completed, task.total, task.fields["note"]) == (3, 4, "team 66.7% right")
    screen(StageFinished(mark("evaluate", **{"completions wanted": 5, "of these sampled": 3})))
    assert bar.finished or not bar.live.is_started
    assert screen._bar is None
    assert "    3 completions sampled, 2 shared between systems (12 s)" in shown(console)
    screen.close()
