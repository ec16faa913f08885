"""Experiment trackers (wandb, trackio, tensorboard, mlflow) through accelerate.

Everything they show is in the folder's records too; a tracker that fails is switched off, and the training continues.
"""

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, Self, cast

from mada.errors import LearningError
from mada.events import Event, StepFinished, TrainingStarted, ValidationFinished
from mada.runs.records import AgentStep, ValidationStep

TRACKERS = ("wandb", "trackio", "tensorboard", "mlflow")

_WANDB = {"console": "off", "silent": True, "login_timeout": 60}
"""It would copy all that a terminal shows, a live table redrawn many times a second, and print in between."""

_log = logging.getLogger(__name__)


class Tracker(Protocol):
    """The part of accelerate's `GeneralTracker` that is used here; any subclass of it will do."""

    name: str

    def start(self) -> None:
        """Begin an experiment."""
        ...

    def store_init_configuration(self, values: dict[str, object]) -> None:
        """Store the settings."""
        ...

    def log(self, values: dict[str, float], step: int | None = None) -> None:
        """Store a step's numbers."""
        ...

    def finish(self) -> None:
        """End the experiment."""
        ...


def check_trackers(names: Sequence[str]) -> None:
    """Raise unless these trackers are ready, before any work that they are to show.

    wandb may ask here for an account; asked in the middle of a training, nobody might be there to answer.
    """
    for name in names:
        _check_installed(name)
    if "wandb" in names and os.environ.get("WANDB_MODE", "online") == "online":
        try:
            import_module("wandb").login(verify=False)
        except Exception as error:
            raise LearningError(
                f"wandb cannot begin: {error} Or set WANDB_MODE=offline: its files can be sent later (`wandb sync`)"
            ) from error


def open_trackers(names: Sequence[str], *, project: str, run: str, folder: Path) -> list[Tracker]:
    """Make the trackers of these names, for one run of a project.

    What wandb and tensorboard write to files is under `folder`; the others have folders of their own.
    """
    for name in names:
        _check_installed(name)
    if names:
        import_module("accelerate.state").PartialState()  # without it some of them fail at their first number
    return [_tracker(name, project=project, run=run, folder=folder) for name in dict.fromkeys(names)]


class Tracking:
    """Trackers as one, from their start to their end; one that fails is switched off, and the others go on.

    with Tracking(open_trackers(["trackio"], project="mada", run="first", folder=folder)) as tracking:
        tracking.start({"learning_rate": 1e-6})
        tracking.log({"accuracy": 0.5}, step=1)
    """

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = list(trackers)
        self._started: list[Tracker] = []

    def start(self, settings: Mapping[str, object]) -> None:
        """Begin an experiment in every tracker."""
        # No tracker minds text, and tensorboard minds None.
        shown = {name: "none" if value is None else value for name, value in settings.items()}
        self._call_all(lambda tracker: tracker.start())
        self._started = list(self._trackers)
        self._call_all(lambda tracker: tracker.store_init_configuration(shown))

    def log(self, numbers: dict[str, float], *, step: int) -> None:
        """Send numbers."""
        self._call_all(lambda tracker: tracker.log(numbers, step=step))

    def close(self) -> None:
        """Finish the experiments that were started."""
        self._trackers = [tracker for tracker in self._trackers if tracker in self._started]
        self._call_all(lambda tracker: tracker.finish())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call_all(self, message: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            # Trackers talk to networks and raise what they like: none of it is worth a training of days.
            try:
                message(tracker)
            except Exception as error:
                _log.warning("the tracker %s failed and is switched off: %s", tracker.name, error)
                self._trackers.remove(tracker)


def log_training(tracking: Tracking, event: Event) -> None:
    """Send every step and validation of a training, as `<agent>/<metric>` and `<agent>/validation/<metric>`.

    `Events(partial(log_training, tracking))` sends those of a `Trainer`.
    """
    match event:
        case TrainingStarted():
            tracking.start({**event.settings, "agents": ", ".join(event.agents), "total_steps": event.total_steps})
        case StepFinished():
            seconds = {"seconds/rollout": event.rollout_seconds, "seconds/learn": event.learn_seconds}
            tracking.log({**_numbers(event.agents.values(), ""), **seconds}, step=event.step)
        case ValidationFinished():
            tracking.log(_numbers(event.agents.values(), "validation/"), step=event.step)
        case _:
            pass


def _check_installed(name: str) -> None:
    if name not in TRACKERS:
        raise LearningError(f"unknown tracker {name!r}; choose from {', '.join(TRACKERS)}")
    for package in ("accelerate", name):
        if find_spec(package) is None:
            raise LearningError(
                f"the tracker {name!r} needs the package {package}, which is not installed; "
                f"install it (pip install {package}) or leave the tracker out"
            )


def _tracker(name: str, *, project: str, run: str, folder: Path) -> Tracker:
    kind: Any = import_module("accelerate.tracking").LOGGER_TYPE_TO_CLASS[name]
    if name == "wandb":
        made = kind(project, name=run, dir=str(folder), settings=_WANDB)
    elif name == "tensorboard":
        made = kind(run, logging_dir=str(folder / "tensorboard"))
    elif name == "mlflow":
        made = kind(project, run_name=run)
    else:
        made = kind(project, name=run)
    return cast("Tracker", made)


def _numbers(records: Iterable[AgentStep | ValidationStep], prefix: str) -> dict[str, float]:
    """Return the finite numbers of records by agent and name, the reward's parts among them."""
    numbers: dict[str, float] = {}
    for record in records:
        values = asdict(record)
        values |= {f"reward_parts/{name}": value for name, value in values.pop("reward_parts", {}).items()}
        for name in ("step", "agent", "is_best"):
            values.pop(name, None)
        finite = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
        numbers |= {f"{record.agent}/{prefix}{name}": value for name, value in finite.items()}
    return numbers
