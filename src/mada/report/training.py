"""Training as its records tell it: validations, curves of rollouts, and warnings about agents that did not improve."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Protocol, TypeVar

from mada.runs import StoredRecords, StoredRun
from mada.runs.records import METRICS, VALIDATION

ROLES = ("generators", "critics")
WINDOWS, SHORTEST_WINDOW = 10, 3
"""Rollouts are averaged over a window of a tenth of all steps, and at least this many."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The part of a validation's record that a report needs; `is_best` says that its adapter was kept."""

    step: int
    agent: str
    accuracy: float
    length: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class RolloutPoint:
    """The mean accuracy over a window of steps around one, and the band one standard deviation to either side."""

    step: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """One agent's training: the accuracy of its rollouts step by step, and its validations.

    Of the validations `is_best` marks the one alone whose adapter was kept in the end.
    """

    run: str
    role: str
    agent: str
    rollouts: tuple[RolloutPoint, ...]
    validation: tuple[Validation, ...]

    @property
    def best(self) -> Validation:
        """The validation whose adapter was kept."""
        return next((one for one in self.validation if one.is_best), self.validation[-1])


@dataclass(frozen=True, slots=True)
class _Step:
    """The part of a step's metrics that curves and warnings need; no accuracy where nothing could be graded."""

    step: int
    agent: str
    accuracy: float | None
    truncated_share: float = 0.0
    skipped_share: float = 0.0


class _OfAgent(Protocol):
    @property
    def agent(self) -> str: ...


Record = TypeVar("Record", bound=_OfAgent)


def read_curves(run: StoredRun, *, title: str = "", roles: Sequence[str] = ROLES) -> list[TrainingCurve]:
    """Return the training curves of all agents, generators first."""
    curves: list[TrainingCurve] = []
    for role in roles:
        rollouts = {
            agent: [(one.step, one.accuracy) for one in steps if one.accuracy is not None]
            for agent, steps in _by_agent(run, role, METRICS, _Step).items()
        }
        validations = _by_agent(run, role, VALIDATION, Validation)
        for agent in dict.fromkeys((*(name for name, steps in rollouts.items() if steps), *validations)):
            records = validations.get(agent, [])
            # Every record that was the best so far is marked; the last of them is the adapter in use.
            kept = max((index for index, one in enumerate(records) if one.is_best), default=None)
            points = tuple(replace(one, is_best=index == kept) for index, one in enumerate(records))
            curves.append(TrainingCurve(title, role, agent, smoothed(rollouts.get(agent, [])), points))
    return curves


def smoothed(steps: Sequence[tuple[int, float]]) -> tuple[RolloutPoint, ...]:
    """Return the mean of a centred window around every step, with the window's population deviation as a band.

    At the ends the window is cut off, so the first and last points are means of fewer steps.
    """
    reach = max(SHORTEST_WINDOW, round(len(steps) / WINDOWS)) // 2
    points: list[RolloutPoint] = []
    for index, (step, _) in enumerate(steps):
        window = [value for _, value in steps[max(0, index - reach) : index + reach + 1]]
        mean, deviation = fmean(window), pstdev(window)
        points.append(RolloutPoint(step, mean, low=mean - deviation, high=mean + deviation))
    return tuple(points)


def finished_training_warnings(run: StoredRun) -> list[str]:
    """Return the warnings of every finished training of a run."""
    done = {mark.name for mark in run.finished_stages()}
    return [warning for role in ROLES if role in done for warning in training_warnings(run, role)]


def training_warnings(run: StoredRun, role: str) -> list[str]:
    """Say which agents of a role had nothing to learn from or did not improve, and what is likely to help."""
    validated = [curve for curve in read_curves(run, roles=[role]) if curve.validation]
    unchanged = {one.agent for one in validated if one.validation[-1].step > 0 and one.best.step == 0}
    agents: dict[str, list[str]] = {}
    for agent, steps in _by_agent(run, role, METRICS, _Step).items():
        if all(one.skipped_share == 1 for one in steps):
            agents.setdefault(_why_skipped(steps), []).append(agent)
        elif agent in unchanged:
            warning = (
                "no step was better on the validation set than step 0, whose adapter is kept. "
                "Try more steps, another training.learning_rate, or a larger data.validation_size"
            )
            agents.setdefault(warning, []).append(agent)
    return [f"{', '.join(who)}: {warning}" for warning, who in agents.items()]


def _why_skipped(steps: Sequence[_Step]) -> str:
    cut_off = fmean(one.truncated_share for one in steps)
    if cut_off >= 0.5:
        return (
            f"nothing to learn from: every completion was skipped, and {cut_off:.0%} of them were cut off at the "
            "token limit. Raise training.max_new_tokens"
        )
    accuracies = [one.accuracy for one in steps if one.accuracy is not None]
    accuracy = fmean(accuracies) if accuracies else 0.5
    remedy = "Raise training.group_size or training.temperature"
    if not 0.1 <= accuracy <= 0.9:
        hard = "hard: use easier problems or a stronger model" if accuracy < 0.1 else "easy: use harder problems"
        remedy = f"At {accuracy:.0%} right the problems are too {hard}, or raise training.group_size"
    return f"nothing to learn from: completions of one prompt never had different rewards. {remedy}"


def _by_agent(run: StoredRun, role: str, file: str, kind: type[Record]) -> dict[str, list[Record]]:
    path = run.path(role, file)
    records: dict[str, list[Record]] = {}
    for record in StoredRecords(path, kind) if path.is_file() else ():
        records.setdefault(record.agent, []).append(record)
    return records
