"""Experiment trackers (wandb, trackio, tensorboard, mlflow) as observers of a training, through accelerate.

Everything they show is in the folder's records too; a tracker that fails is switched off, and training goes on.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, Self, cast

from mada.errors import LearningError
from mada.learning.metrics import AgentStep, ValidationStep
from mada.learning.observing import SilentObserver, StepReport, TrainingPlan, ValidationReport

TRACKERS = ("wandb", "trackio", "tensorboard", "mlflow")

_log = logging.getLogger(__name__)


class Tracker(Protocol):
    """The part of accelerate's `GeneralTracker` that is used here; any subclass of it will do."""

    name: str

    def start(self) -> None:
        """Begin an experiment."""
        ...

    def store_init_configuration(self, values: dict[str, object]) -> None:
        """Note the settings."""
        ...

    def log(self, values: dict[str, float], step: int | None = None) -> None:
        """Note numbers of a step."""
        ...

    def finish(self) -> None:
        """End the experiment."""
        ...


def open_trackers(names: Sequence[str], *, project: str, folder: Path) -> list[Tracker]:
    """Make the trackers of these names; those that write files (tensorboard) write them under `folder`."""
    return [_tracker(name, project=project, folder=folder) for name in dict.fromkeys(names)]


class TrackingObserver(SilentObserver):
    """Sends every step and validation to trackers, as `<agent>/<metric>` and `<agent>/validation/<metric>`.

    with TrackingObserver(open_trackers(["trackio"], project="mada", folder=folder)) as tracking:
        await Trainer(…, observers=[tracking]).train()
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = list(trackers)

    def started(self, plan: TrainingPlan) -> None:
        """Begin an experiment in every tracker."""
        # No tracker minds text, and tensorboard minds None.
        settings = {name: "none" if value is None else value for name, value in plan.settings.items()}
        shown = {**settings, "agents": ", ".join(plan.agents), "total_steps": plan.total_steps}
        self._tell(lambda tracker: tracker.start())
        self._tell(lambda tracker: tracker.store_init_configuration(shown))

    def step_done(self, report: StepReport) -> None:
        """Send a step's numbers."""
        seconds = {"seconds/rollout": report.rollout_seconds, "seconds/learn": report.learn_seconds}
        numbers = {name: value for agent in report.agents.values() for name, value in _numbers(agent, "").items()}
        self._tell(lambda tracker: tracker.log({**numbers, **seconds}, step=report.step))

    def validation_done(self, report: ValidationReport) -> None:
        """Send a validation's numbers."""
        agents = report.agents.values()
        numbers = {name: value for agent in agents for name, value in _numbers(agent, "validation/").items()}
        self._tell(lambda tracker: tracker.log(numbers, step=report.step))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tell(lambda tracker: tracker.finish())

    def _tell(self, message: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            # Trackers talk to networks and raise what they like: none of it is worth a training of days.
            try:
                message(tracker)
            except Exception as error:
                _log.warning("the tracker %s failed and is switched off: %s", tracker.name, error)
                self._trackers.remove(tracker)


def _tracker(name: str, *, project: str, folder: Path) -> Tracker:
    if name not in TRACKERS:
        raise LearningError(f"there is no tracker {name!r}; choose among {', '.join(TRACKERS)}")
    for package in ("accelerate", name):
        if find_spec(package) is None:
            raise LearningError(
                f"the tracker {name!r} needs the package {package}, which is not installed; "
                f"install it (pip install {package}) or leave the tracker out"
            )
    kind: Any = import_module("accelerate.tracking").LOGGER_TYPE_TO_CLASS[name]
    place = {"logging_dir": str(folder)} if kind.requires_logging_directory else {}
    return cast("Tracker", kind(project, **place))


def _numbers(record: AgentStep | ValidationStep, prefix: str) -> dict[str, float]:
    """Return the finite numbers of a record by name, the reward's parts among them."""
    plain = asdict(record)
    parts = {f"reward_parts/{name}": value for name, value in plain.pop("reward_parts", {}).items()}
    shown = {name: value for name, value in {**plain, **parts}.items() if name not in ("step", "agent", "is_best")}
    return {
        f"{record.agent}/{prefix}{name}": value
        for name, value in shown.items()
        if value is not None and math.isfinite(value)
    }
