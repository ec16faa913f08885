"""A run's events in trackers: every training is an experiment of its own, finished even when the training stops."""

import logging
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from accelerate import tracking as accelerate_tracking
from accelerate.state import AcceleratorState
from accelerate.tracking import GeneralTracker, on_main_process

from mada.errors import LearningError
from mada.events import Events, StepFinished, TrainingFinished, TrainingStarted, ValidationFinished
from mada.pipeline import tracking
from mada.pipeline.tracking import TRACKERS, RunTracker, check_trackers
from mada.runs.records import AgentStep, ValidationStep

NUMBERS: dict[str, Any] = dict.fromkeys(AgentStep.__dataclass_fields__, None) | {
    "step": 4,
    "agent": "a",
    "reward": 1.5,
    "reward_parts": {"accuracy": 0.5},
    "tokens": 10,
}
START = TrainingStarted("critics", ("a",), 1, 10, {"learning_rate": 1e-6, "steps": None}, {})
STEP = StepFinished(4, 10, {"a": AgentStep(**NUMBERS)}, rollout_seconds=2.0, learn_seconds=1.0)
VALIDATION = ValidationFinished(4, 10, {"a": ValidationStep(4, "a", 0.5, 20.0, 0.25, is_best=True)}, seconds=3.0)
OF_STEP = {
    "a/reward": 1.5,
    "a/reward_parts/accuracy": 0.5,
    "a/tokens": 10,
    "seconds/rollout": 2.0,
    "seconds/learn": 1.0,
}
OF_VALIDATION = {"a/validation/accuracy": 0.5, "a/validation/length": 20.0, "a/validation/truncated_share": 0.25}


class ListTracker(GeneralTracker):
    """A tracker as accelerate documents them, which keeps everything in a list."""

    name = "list"
    requires_logging_directory = False

    def __init__(self, project, heard, *, fails=False, **options):
        super().__init__()
        self.heard, self.fails = heard, fails
        heard.append((project, *options.values()))

    @property
    def tracker(self):
        return self.heard

    @on_main_process
    def start(self):
        self.heard.append("start")

    @on_main_process
    def store_init_configuration(self, values):
        self.heard.append(values)

    @on_main_process
    def log(self, values, step=None, **kwargs):
        if self.fails:
            raise ConnectionError("no network")
        self.heard.append((step, values))

    @on_main_process
    def finish(self):
        self.heard.append("finish")


@pytest.fixture
def heard(monkeypatch):
    """What `trackio` hears and `wandb`, which fails at its first number."""
    AcceleratorState._reset_state(reset_partial_state=True)  # as in a process that has not used accelerate before
    heard = {"trackio": [], "wandb": []}
    for one in heard:
        kind = partial(ListTracker, heard=heard[one], fails=one == "wandb")
        monkeypatch.setitem(accelerate_tracking.LOGGER_TYPE_TO_CLASS, one, kind)
    return heard


def track(folder, *trackers, events=(START, STEP, VALIDATION)):
    with RunTracker(trackers, folder=folder) as tracker:
        stream = Events(tracker)
        for event in events:
            stream.emit(event)


def test_a_training_is_an_experiment_of_its_own_to_its_end(tmp_path, heard):
    trainings = [START, STEP, VALIDATION, TrainingFinished("critics"), START]
    track(tmp_path / "math", "trackio", "trackio", events=trainings)
    settings = {"learning_rate": 1e-6, "steps": "none", "agents": "a", "total_steps": 10}
    begun = [("mada", "math-critics"), "start", settings]
    assert heard["trackio"] == [*begun, (4, OF_STEP), (4, OF_VALIDATION), "finish", *begun, "finish"]


def test_a_tracker_that_fails_is_switched_off_and_the_others_go_on(tmp_path, heard, caplog):
    with caplog.at_level(logging.WARNING):
        track(tmp_path, "wandb", "trackio")
    assert caplog.messages == ["the tracker list failed and is switched off: no network"]
    assert (len(heard["trackio"]), heard["wandb"][-1]["agents"]) == (6, "a")


@pytest.mark.parametrize("missing", ["accelerate", *TRACKERS])
def test_a_missing_package_is_named(monkeypatch, missing):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None if name == missing else object())
    name = "mlflow" if missing == "accelerate" else missing
    with pytest.raises(LearningError, match=f"the tracker '{name}' needs the package {missing}, which is not"):
        check_trackers([name])


def test_wandb_asks_for_an_account_before_there_is_anything_to_show(monkeypatch):
    asked = []

    def login(*, verify):
        asked.append(verify)
        raise RuntimeError("No API key configured.")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(login=login))  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(tracking, "find_spec", lambda name: object())
    monkeypatch.delenv("WANDB_MODE", raising=False)
    check_trackers(["tensorboard"])
    assert asked == []
    with pytest.raises(LearningError, match=r"^wandb cannot begin: No API key configured\. Or set WANDB_MODE=offline"):
        check_trackers(["wandb"])
    monkeypatch.setenv("WANDB_MODE", "offline")
    check_trackers(["wandb"])
    assert asked == [False]


def test_tensorboard_shows_a_training(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    track(tmp_path, "tensorboard")
    written = events.EventAccumulator(str(tmp_path / "tensorboard" / f"{tmp_path.name}-critics")).Reload()
    values = {tag: [(one.step, one.value) for one in written.Scalars(tag)] for tag in written.Tags()["scalars"]}
    assert values == {name: [(4, value)] for name, value in (OF_STEP | OF_VALIDATION).items()}


def test_wandb_hears_a_training_to_its_end_and_writes_under_the_folder(tmp_path, monkeypatch, caplog):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    track(tmp_path, "wandb")
    assert caplog.messages == [], "a tracker that fails is switched off with a warning"
    [written] = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = written.read_bytes()
    for name in (b"mada", b"critics", b"learning_rate", b"reward_parts", b"truncated_share"):
        assert name in content
