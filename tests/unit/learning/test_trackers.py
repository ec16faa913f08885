import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from accelerate.state import AcceleratorState
from accelerate.tracking import GeneralTracker, on_main_process

from mada.errors import LearningError
from mada.events import Events, StepFinished, TrainingStarted, ValidationFinished
from mada.learning import trackers as trackers_module
from mada.learning.trackers import TRACKERS, Tracker, Tracking, check_trackers, log_training, open_trackers
from mada.runs.records import AgentStep, ValidationStep

NUMBERS: dict[str, Any] = dict.fromkeys(AgentStep.__dataclass_fields__, None) | {
    "step": 4,
    "agent": "a",
    "reward": 1.5,
    "reward_parts": {"accuracy": 0.5},
    "tokens": 10,
}
PLAN = TrainingStarted("critics", ("a",), 1, 10, {"learning_rate": 1e-6, "steps": None}, {})
STEP = StepFinished(4, 10, {"a": AgentStep(**NUMBERS)}, rollout_seconds=2.0, learn_seconds=1.0)
LOOK = ValidationFinished(4, 10, {"a": ValidationStep(4, "a", 0.5, 20.0, 0.25, is_best=True)}, seconds=3.0)


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


def track(trackers: Sequence[Tracker]) -> None:
    with Tracking(trackers) as tracking:
        events = Events(partial(log_training, tracking))
        for event in (PLAN, STEP, LOOK):
            events.emit(event)


def test_a_tracker_of_accelerates_hears_everything_that_is_a_number():
    tracker = ListTracker()
    track([tracker])
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
        track([failing, good])
    assert caplog.messages == ["the tracker failing failed and is switched off: no network"]
    assert len(good.heard) == 5
    assert failing.heard[-1] != "finish"


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LearningError, match="unknown tracker 'excel'"):
        open_trackers(["excel"], project="mada", run="first", folder=tmp_path)


@pytest.mark.parametrize("missing", ["accelerate", *TRACKERS])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: None if name == missing else object())
    name = "wandb" if missing == "accelerate" else missing
    with pytest.raises(LearningError, match=f"the tracker '{name}' needs the package {missing}, which is not"):
        open_trackers([name], project="mada", run="first", folder=tmp_path)


def test_wandb_asks_for_an_account_before_there_is_anything_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def login(*, verify: bool) -> bool:
        asked.append(verify)
        if len(asked) > 1:
            raise RuntimeError("No API key configured.")
        return True

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(login=login))  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: object())
    monkeypatch.delenv("WANDB_MODE", raising=False)
    check_trackers(["tensorboard"])
    assert asked == []
    check_trackers(["tensorboard", "wandb"])
    assert asked == [False]
    with pytest.raises(LearningError, match=r"^wandb cannot begin: No API key configured\. Or set WANDB_MODE=offline"):
        check_trackers(["wandb"])
    monkeypatch.setenv("WANDB_MODE", "offline")
    check_trackers(["wandb"])
    assert len(asked) == 2


def test_a_training_that_was_finished_before_leaves_trackers_alone():
    tracker = ListTracker()
    with Tracking([tracker]):
        pass
    assert tracker.heard == []


def test_trackers_are_made_by_accelerate_once_each_and_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: object())
    made = open_trackers(["tensorboard", "wandb", "tensorboard"], project="mada", run="first", folder=tmp_path)
    assert [tracker.name for tracker in made] == ["tensorboard", "wandb"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_with_an_account_hear_a_training_through_accelerates_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)  # as in a process that has not used accelerate before
    heard: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step=None: heard.append((step, values)), finish=lambda: heard.append("finish")
    )

    def init(project: str, *, name: str, **others: object) -> object:
        heard.append((project, name))
        return run

    package = SimpleNamespace(
        init=init, config=SimpleNamespace(update=lambda values, allow_val_change: heard.append(values))
    )
    monkeypatch.setitem(sys.modules, name, package)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(trackers_module, "find_spec", lambda name: object())
    track(open_trackers([name], project="mada", run="first", folder=tmp_path))
    assert caplog.messages == [], "a tracker that fails is switched off with a warning"
    assert (heard[0], heard[2][0], heard[-1], len(heard)) == (("mada", "first"), 4, "finish", 5)


def test_tensorboard_shows_a_training(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    track(open_trackers(["tensorboard"], project="mada", run="first", folder=tmp_path))
    written = events.EventAccumulator(str(tmp_path / "tensorboard" / "first")).Reload()
    values = {tag: [(one.step, one.value) for one in written.Scalars(tag)] for tag in written.Tags()["scalars"]}
    assert values == {
        "a/reward": [(4, 1.5)],
        "a/reward_parts/accuracy": [(4, 0.5)],
        "a/tokens": [(4, 10)],
        "a/validation/accuracy": [(4, 0.5)],
        "a/validation/length": [(4, 20)],
        "a/validation/truncated_share": [(4, 0.25)],
        "seconds/rollout": [(4, 2)],
        "seconds/learn": [(4, 1)],
    }


def test_wandb_hears_a_training_to_its_end_and_writes_under_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    track(open_trackers(["wandb"], project="mada", run="first", folder=tmp_path))
    assert caplog.messages == [], "a tracker that fails is switched off with a warning"
    [written] = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = written.read_bytes()
    for name in (b"mada", b"first", b"learning_rate", b"reward_parts", b"truncated_share"):
        assert name in content
