import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from accelerate.tracking import GeneralTracker, on_main_process

from mada.errors import LearningError
from mada.learning import trackers as trackers_module
from mada.learning.metrics import AgentStep, ValidationStep
from mada.learning.observing import StepReport, TrainingPlan, ValidationReport
from mada.learning.trackers import TRACKERS, TrackingObserver, open_trackers

NUMBERS: dict[str, Any] = dict.fromkeys(AgentStep.__dataclass_fields__, None) | {
    "step": 4,
    "agent": "a",
    "reward": 1.5,
    "reward_parts": {"accuracy": 0.5},
    "tokens": 10,
}
PLAN = TrainingPlan(("a",), 1, 10, {"learning_rate": 1e-6, "steps": None}, {})
STEP = StepReport(4, 10, {"a": AgentStep(**NUMBERS)}, rollout_seconds=2.0, learn_seconds=1.0)
LOOK = ValidationReport(4, 10, {"a": ValidationStep(4, "a", 0.5, 20.0, 0.25, is_best=True)}, seconds=3.0)


class ListTracker(GeneralTracker):
    """A tracker as accelerate documents them, which keeps everything in a list."""

    name = "list"
    requires_logging_directory = False

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    @property
    def tracker(self) -> list[Any]:
        return self.heard

    @on_main_process
    def start(self) -> None:
        self.heard.append("start")

    @on_main_process
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.heard.append(values)

    @on_main_process
    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        self.heard.append((step, values))

    @on_main_process
    def finish(self) -> None:
        self.heard.append("finish")


class FailingTracker(ListTracker):
    name = "failing"

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        raise ConnectionError("no network")


def watch(observer: TrackingObserver) -> None:
    with observer:
        observer.started(PLAN)
        observer.step_done(STEP)
        observer.validation_done(LOOK)


def test_a_tracker_of_accelerates_hears_everything_that_is_a_number():
    tracker = ListTracker()
    watch(TrackingObserver([tracker]))
    assert tracker.heard == [
        "start",
        {"learning_rate": 1e-6, "steps": "none", "agents": "a", "total_steps": 10},
        (
            4,
            {
                "a/reward": 1.5,
                "a/reward_parts/accuracy": 0.5,
                "a/tokens": 10,
                "seconds/rollout": 2.0,
                "seconds/learn": 1.0,
            },
        ),
        (4, {"a/validation/accuracy": 0.5, "a/validation/length": 20.0, "a/validation/truncated_share": 0.25}),
        "finish",
    ]


def test_a_tracker_that_fails_is_switched_off_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    failing, good = FailingTracker(), ListTracker()
    with caplog.at_level(logging.WARNING):
        watch(TrackingObserver([failing, good]))
    assert caplog.messages == ["the tracker failing failed and is switched off: no network"]
    assert len(good.heard) == 5
    assert failing.heard[-1] != "finish"


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LearningError, match="there is no tracker 'excel'; choose among wandb, trackio"):
        open_trackers(["excel"], project="mada", folder=tmp_path)


@pytest.mark.parametrize("missing", ["accelerate", *TRACKERS])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: None if name == missing else object())
    name = "wandb" if missing == "accelerate" else missing
    with pytest.raises(LearningError, match=f"the tracker '{name}' needs the package {missing}, which is not"):
        open_trackers([name], project="mada", folder=tmp_path)


def test_trackers_are_made_by_accelerate_once_each_and_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: object())
    made = open_trackers(["tensorboard", "wandb", "tensorboard"], project="mada", folder=tmp_path)
    assert [tracker.name for tracker in made] == ["tensorboard", "wandb"]
    assert list(tmp_path.iterdir()) == []


def test_trackio_hears_a_training_through_accelerates_own_tracker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step=None: heard.append((step, values)), finish=lambda: heard.append("finish")
    )
    package = SimpleNamespace(
        init=lambda project: heard.append(project) or run,
        config=SimpleNamespace(update=lambda values, allow_val_change: heard.append(values)),
    )
    monkeypatch.setitem(sys.modules, "trackio", package)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: object())
    watch(TrackingObserver(open_trackers(["trackio"], project="mada", folder=tmp_path)))
    assert (heard[0], heard[2][0], heard[-1], len(heard)) == ("mada", 4, "finish", 5)


def test_tensorboard_writes_its_files_under_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    watch(TrackingObserver(open_trackers(["tensorboard"], project="mada", folder=tmp_path)))
    assert list((tmp_path / "mada").rglob("events.out.tfevents*"))
