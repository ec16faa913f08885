"""A run's events in trackers: every training is an experiment of its own, finished even when the training stops."""

import pytest

from mada.events import Events, StepFinished, TrainingFinished, TrainingStarted
from mada.pipeline import tracking
from mada.pipeline.tracking import RunTracker


class ListTracker:
    name = "list"

    def __init__(self, said):
        self.said = said

    def start(self):
        self.said.append("start")

    def store_init_configuration(self, values):
        self.said.append(values)

    def log(self, values, step=None):
        self.said.append((step, values))

    def finish(self):
        self.said.append("finish")


@pytest.fixture
def said(monkeypatch):
    said = []

    def open_trackers(names, *, project, run, folder):
        said.append((*names, project, run))
        return [ListTracker(said)]

    monkeypatch.setattr(tracking, "open_trackers", open_trackers)
    return said


def start(name):
    return TrainingStarted(name, ("a",), 1, 2, {"steps": 2}, {})


def test_every_training_is_an_experiment_from_its_start_to_its_end(tmp_path, said):
    with RunTracker(["wandb"], folder=tmp_path / "math") as tracker:
        events = Events(tracker)
        for event in (start("generators"), StepFinished(1, 2, {}, 2.0, 1.0), TrainingFinished("generators")):
            events.emit(event)
        events.log("between the trainings")
        events.emit(start("critics"))
    settings = {"steps": 2, "agents": "a", "total_steps": 2}
    seconds = {"seconds/rollout": 2.0, "seconds/learn": 1.0}
    assert said == [
        *(("wandb", "mada", "math-generators"), "start", settings, (1, seconds), "finish"),
        *(("wandb", "mada", "math-critics"), "start", settings, "finish"),
    ]
