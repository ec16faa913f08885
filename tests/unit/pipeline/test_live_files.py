"""What a run leaves for those who follow it: thinned out, bounded, and never in the run's way."""

import json
import logging
from datetime import UTC, datetime

import pytest

import mada.pipeline.live
from mada.events import (
    Events,
    Log,
    MemoryUsed,
    Progress,
    Rollout,
    RolloutGroup,
    StageSkipped,
    StageStarted,
    StepFinished,
    StepProgress,
    StepRollouts,
    from_json,
)
from mada.pipeline.live import EVENTS, ROLLOUTS, LiveFiles, memory_used
from mada.runs import StageMark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MARK = StageMark(name="split", started_at=NOW, ended_at=NOW, seconds=2.5, summary={})
GROUP = RolloutGroup("generator-1", "p1", "2 + 2?", (Rollout("\ud800 4", 3, 1.0, 0.5, True, False),))


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def live(tmp_path, clock):
    with LiveFiles(tmp_path, clock=clock, memory=lambda: MemoryUsed(7)) as opened:
        yield opened


def written(folder):
    lines = (folder / EVENTS).read_text().splitlines()
    return [event for event in map(from_json, lines) if not isinstance(event, MemoryUsed)]


def test_events_are_lines_with_their_time(live, tmp_path, clock):
    live(StageStarted("split", 1, 7))
    clock.now += 0.25
    live(Log("engine: local"))
    lines = [json.loads(line) for line in (tmp_path / EVENTS).read_text().splitlines()]
    assert [(line["event"], line["time"]) for line in lines] == [
        ("StageStarted", 1000.0),
        ("MemoryUsed", 1000.0),
        ("Log", 1000.25),
    ]
    assert written(tmp_path) == [StageStarted("split", 1, 7), Log("engine: local")]


def test_progress_is_written_once_a_second_and_at_its_end(live, tmp_path, clock):
    for done in range(101):
        live(Progress(done, 100))
        live(StepProgress("sampling", done, 100))
        clock.now += 0.0625
    done = [event.done for event in written(tmp_path) if isinstance(event, Progress)]
    assert done == [0, 16, 32, 48, 64, 80, 96, 100]
    assert sum(isinstance(event, StepProgress) for event in written(tmp_path)) == 7
    live(StageStarted("critics", 5, 7))
    live(Progress(0, 9))
    assert written(tmp_path)[-1] == Progress(0, 9)


def test_a_steps_records_are_not_stored_twice(live, tmp_path):
    live(StepFinished(3, 9, {"a": None}, 1.5, 0.5))  # type: ignore[dict-item]
    assert written(tmp_path) == [StepFinished(3, 9, {}, 1.5, 0.5)]


def test_the_latest_rollouts_replace_the_earlier_ones_when_they_are_due(live, tmp_path, clock):
    events = Events(Events(live))
    assert events.wants(StepRollouts)
    assert not events.wants(Log)
    assert not Events(print).wants(StepRollouts)
    events.emit(StepRollouts("generators", 1, (GROUP,)))
    assert not events.wants(StepRollouts)
    clock.now += 2
    assert events.wants(StepRollouts)
    events.emit(StepRollouts("generators", 2, (GROUP,)))
    assert from_json((tmp_path / ROLLOUTS).read_text()) == StepRollouts("generators", 2, (GROUP,))
    assert sorted(path.name for path in tmp_path.iterdir()) == [ROLLOUTS]


def test_a_long_file_is_begun_again_with_the_latest_event_of_every_kind(live, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(mada.pipeline.live, "MOST_BYTES", 2_000)
    live(StageStarted("generators", 3, 7))
    first = (tmp_path / EVENTS).stat().st_ino
    for number in range(100):
        live(Log(f"message {number}"))
        assert (tmp_path / EVENTS).stat().st_size <= 2_000
    assert written(tmp_path)[0] == StageStarted("generators", 3, 7)
    assert written(tmp_path)[-1] == Log("message 99")
    assert (tmp_path / EVENTS).stat().st_ino != first


def test_every_session_begins_its_own_file(tmp_path, clock):
    for name in ("first", "second"):
        with LiveFiles(tmp_path, clock=clock) as live:
            live(Log(name))
    assert written(tmp_path) == [Log("second")]


def test_a_session_without_work_leaves_the_file_of_the_one_before(tmp_path, clock):
    with LiveFiles(tmp_path, clock=clock) as live:
        live(Log("first"))
    before = (tmp_path / EVENTS).read_bytes()
    with LiveFiles(tmp_path, clock=clock) as live:
        live(StageSkipped(MARK))
    assert (tmp_path / EVENTS).read_bytes() == before


def test_memory_is_looked_at_now_and_then(live, tmp_path, clock):
    for _ in range(100):
        live(Log(""))
        clock.now += 0.0625
    lines = [from_json(line) for line in (tmp_path / EVENTS).read_text().splitlines()]
    assert lines.count(MemoryUsed(7)) == 2
    assert memory_used().process > 10_000_000


@pytest.mark.parametrize("broken", [EVENTS, ROLLOUTS])
def test_a_run_goes_on_without_files_that_cannot_be_written(tmp_path, clock, caplog, broken):
    (tmp_path / broken).mkdir()
    with caplog.at_level(logging.WARNING), LiveFiles(tmp_path, clock=clock) as live:
        for step in (1, 2):
            live(StepRollouts("generators", step, (GROUP,)))
            live(Log("still here"))
    assert caplog.text.count("can no longer be followed") == 1
    assert not live.wants(StepRollouts)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_a_full_disk_is_not_the_runs_end(tmp_path, clock, caplog):
    with caplog.at_level(logging.WARNING), LiveFiles(tmp_path, clock=clock) as live:
        live(Log("room"))
        assert live._file is not None
        live._file.close()
        live._file = open("/dev/full", "ab", buffering=0)  # noqa: PTH123, SIM115
        live(Log("no room"))
        live(Log("no room"))
    assert caplog.text.count("No space left") == 1
