"""A run in experiment trackers (wandb, trackio, tensorboard, mlflow) through accelerate.

Everything they show is in the folder's records too; a tracker that fails is switched off, and the run continues.
"""

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from mada.errors import LearningError
from mada.evaluation.summary import Summary
from mada.events import Event, StageFinished, StepFinished, TrainingFinished, TrainingStarted, ValidationFinished
from mada.report.reading import read_summary
from mada.runs import StoredRun
from mada.runs.records import AgentStep, ValidationStep

PROJECT = "mada"
# wandb would copy all that a terminal shows, a live table redrawn many times a second, and print in between.
_WANDB = {"console": "off", "silent": True, "login_timeout": 60}
_MAKERS: Mapping[str, Callable[[Any, str, Path], Any]] = {
    "wandb": lambda kind, run, folder: kind(PROJECT, name=run, dir=str(folder), settings=_WANDB),
    "trackio": lambda kind, run, folder: kind(PROJECT, name=run),
    "tensorboard": lambda kind, run, folder: kind(run, logging_dir=str(folder / "tensorboard")),
    "mlflow": lambda kind, run, folder: kind(PROJECT, run_name=run),
}
TRACKERS = tuple(_MAKERS)

_log = logging.getLogger(__name__)


def check_trackers(names: Sequence[str]) -> None:
    """Raise unless these trackers are ready, before any work that they are to show.

    wandb may ask here for an account; asked in the middle of a training, nobody might be there to answer.
    """
    for name in names:
        if name not in TRACKERS:
            raise LearningError(f"unknown tracker {name!r}; choose from {', '.join(TRACKERS)}")
        for package in ("accelerate", name):
            if find_spec(package) is None:
                raise LearningError(
                    f"the tracker {name!r} needs the package {package}, which is not installed; "
                    f"install it (pip install {package}) or leave the tracker out"
                )
    if "wandb" in names and os.environ.get("WANDB_MODE", "online") == "online":
        try:
            import_module("wandb").login(verify=False)
        except Exception as error:
            raise LearningError(
                f"wandb cannot begin: {error} Or set WANDB_MODE=offline: its files can be sent later (`wandb sync`)"
            ) from error


class RunTracker:
    """A subscriber that sends a run's numbers to trackers: every step and validation of a training by agent, and how
    right every system of a finished evaluation is and what it costs.

    Every training and every evaluation is a run of its own there, named after this one and its stage: `math-critics`.
    What wandb and tensorboard write to files is in the run's folder.
    """

    def __init__(self, trackers: Sequence[str], *, folder: Path) -> None:
        self._names, self._folder = dict.fromkeys(trackers), folder
        self._trackers: list[Any] = []

    def __call__(self, event: Event) -> None:
        """Send what an event says."""
        match event:
            case TrainingStarted():
                settings = {**event.settings, "agents": ", ".join(event.agents), "total_steps": event.total_steps}
                self._start(event.name, settings)
            case StepFinished():
                seconds = {"seconds/rollout": event.rollout_seconds, "seconds/learn": event.learn_seconds}
                self._log({**_numbers(event.agents.values(), ""), **seconds}, step=event.step)
            case ValidationFinished():
                self._log(_numbers(event.agents.values(), "validation/"), step=event.step)
            case TrainingFinished():
                self.close()
            case StageFinished(mark) if mark.name == "evaluate":
                summary = read_summary(StoredRun.read(self._folder))
                if summary is not None:
                    self._start(mark.name, {"seeds": len(summary.seeds), "benchmarks": ", ".join(summary.benchmarks)})
                    self._log(numbers_of(summary), step=0)
                    self.close()
            case _:
                pass

    def close(self) -> None:
        """Finish the experiments that were started."""
        self._call_all(lambda tracker: tracker.finish())
        self._trackers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, stage: str, settings: Mapping[str, object]) -> None:
        run = f"{self._folder.resolve().name}-{stage}"
        if self._names:
            import_module("accelerate.state").PartialState()  # without it some of them fail at their first number
            kinds = import_module("accelerate.tracking").LOGGER_TYPE_TO_CLASS
            self._trackers = [_MAKERS[name](kinds[name], run, self._folder) for name in self._names]
        # No tracker minds text, and tensorboard minds None.
        shown = {name: "none" if value is None else value for name, value in settings.items()}
        self._call_all(lambda tracker: tracker.start())
        self._call_all(lambda tracker: tracker.store_init_configuration(shown))

    def _log(self, numbers: dict[str, float], *, step: int) -> None:
        self._call_all(lambda tracker: tracker.log(numbers, step=step))

    def _call_all(self, message: Callable[[Any], None]) -> None:
        for tracker in list(self._trackers):
            # Trackers talk to networks and raise what they like: none of it is worth a training of days.
            try:
                message(tracker)
            except Exception as error:
                _log.warning("the tracker %s failed and is switched off: %s", tracker.name, error)
                self._trackers.remove(tracker)


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


def numbers_of(summary: Summary) -> dict[str, float]:
    """Return the numbers of an evaluation's table, by system."""
    numbers: dict[str, float] = {}
    for one in summary.systems:
        values = {
            "verdict": one.verdict.average.mean,
            "mean": one.mean.average.mean,
            "improves": one.improves,
            "damages": one.damages,
            "calls": one.calls,
            "tokens": one.tokens,
            "prompt tokens": one.prompt_tokens,
            **{benchmark: estimate.mean for benchmark, estimate in one.verdict.benchmarks.items()},
        }
        numbers |= {f"{one.system.name}/{name}": value for name, value in values.items() if value is not None}
    return numbers
