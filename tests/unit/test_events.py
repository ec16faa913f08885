"""Events go to every subscriber, and through JSON to another process."""

from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mada.debate.protocol import RoundStarted, TurnFinished
from mada.debate.transcript import Response, Turn
from mada.events import (
    BestStep,
    CheckpointWritten,
    Event,
    Events,
    Log,
    MemoryUsed,
    Progress,
    Rollout,
    RolloutGroup,
    StageFinished,
    StageSkipped,
    StageStarted,
    StepFinished,
    StepProgress,
    StepRollouts,
    TrainingFinished,
    TrainingStarted,
    ValidationFinished,
    from_json,
    to_json,
)
from mada.runs import StageMark
from mada.runs.records import AgentStep, ValidationStep

NOW = datetime(2026, 1, 1, 12, 30, 15, 250_000, tzinfo=UTC)
MARK = StageMark(name="critics", started_at=NOW, ended_at=NOW, seconds=2.5, summary={"steps": 3, "best": {"a": 0.5}})
EVENTS = [
    Log("engine: local"),
    StageStarted("critics", 5, 7),
    StageSkipped(MARK),
    StageFinished(MARK),
    Progress(3, 9, "team 50 % right"),
    TrainingStarted("critics", ("a",), 3, 9, {"steps": None, "beta": 0.1}, {"a": BestStep(2, None)}, Path("step-2")),
    StepProgress("sampling", 1, 2),
    StepRollouts("critics", 3, (RolloutGroup("a", "p1", "2 + 2?", (Rollout("4", 3, 2.5, -0.5, None, True),)),)),
    MemoryUsed(7, ((1, 2), (3, 4))),
    ValidationFinished(3, 9, {"a": ValidationStep(3, "a", 0.5, 20.0, 0.25, is_best=True)}, 1.5),
    CheckpointWritten(3, Path("checkpoints/step-3")),
    TrainingFinished("critics"),
    RoundStarted(1, "generator", ("a", "b")),
    TurnFinished(1, 0, Turn("a", "2 + 2?", 4, Response("\\boxed{4}", "4", 5))),
]


def test_every_subscriber_gets_every_event_in_order():
    first, second = [], []
    events = Events(first.append)
    events.log("one")
    events.subscribe(second.append)
    events.progress(1, 2)
    assert first == [Log("one"), Progress(1, 2)]
    assert second == [Progress(1, 2)]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_json(event: Event):
    line = to_json(event)
    assert "\n" not in line
    assert from_json(line) == event
    assert from_json(to_json(event, time=1.5)) == event


def test_a_steps_numbers_survive_json():
    numbers: dict[str, Any] = {one.name: 0.1 for one in fields(AgentStep)}
    numbers |= {"step": 3, "agent": "a", "reward_parts": {"x": 1 / 3}}
    numbers |= {"tokens": 7, "tokens_learnt": 6, "kl": None}
    event = StepFinished(3, 9, {"a": AgentStep(**numbers)}, 2.0, 1.0)
    assert from_json(to_json(event)) == event
    assert event.seconds == 3.0
