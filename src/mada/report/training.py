"""Training as its records tell it: validations, curves of rollouts, and warnings about agents that did not improve."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Literal, Protocol, TypeVar

from mada.runs import StoredRecords, StoredRun

Role = Literal["generators", "critics"]
ROLES: tuple[Role, ...] = ("generators", "critics")
WINDOWS, SHORTEST_WINDOW = 10, 3
"""Rollouts are averaged over a window of a tenth of all steps, and at least this many."""


@dataclass(frozen=True, slots=True)
class Validation:
    """A validation record; `is_best` says that no earlier adapter was better."""

    step: int
    agent: str
    accuracy: float
    length: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """An agent's first and last validation, and the one whose adapter was kept."""

    agent: str
    first: Validation
    best: Validation
    last: Validation


@dataclass(frozen=True, slots=True)
class RolloutPoint:
    """The mean accuracy over a window of steps around one, and the band one standard deviation to either side."""

    step: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ValidationPoint:
    """An agent's accuracy on the validation set after a step; `is_best` marks the adapter that was kept in the end."""

    step: int
    accuracy: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """One agent's training: the accuracy of its rollouts step by step, and its validations."""

    run: str
    role: Role
    agent: str
    rollouts: tuple[RolloutPoint, ...]
    validation: tuple[ValidationPoint, ...]


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


def read_outcomes(run: StoredRun, role: str) -> list[TrainingOutcome]:
    """Return the outcome of each agent of a role, in the order in which they were first validated."""
    outcomes: list[TrainingOutcome] = []
    for agent, records in _by_agent(run, role, "validation.jsonl", Validation).items():
        kept = [record for record in records if record.is_best] or records
        outcomes.append(TrainingOutcome(agent, first=records[0], best=kept[-1], last=records[-1]))
    return outcomes


def read_curves(run: StoredRun, *, title: str = "") -> list[TrainingCurve]:
    """Return the training curves of all agents, generators first."""
    return [curve for role in ROLES for curve in _curves(run, role, title=title)]


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
    unchanged = {one.agent for one in read_outcomes(run, role) if one.last.step > 0 and one.best.step == 0}
    agents: dict[str, list[str]] = {}
    for agent, steps in _by_agent(run, role, "metrics.jsonl", _Step).items():
        warning = _warning(steps, is_unchanged=agent in unchanged)
        if warning:
            agents.setdefault(warning, []).append(agent)
    return [f"{', '.join(who)}: {warning}" for warning, who in agents.items()]


def _warning(steps: Sequence[_Step], *, is_unchanged: bool) -> str | None:
    if all(one.skipped_share == 1 for one in steps):
        cut_off = fmean(one.truncated_share for one in steps)
        if cut_off >= 0.5:
            return (
                f"nothing to learn from: every completion was skipped, and {cut_off:.0%} of them were cut off at the "
                "token limit. Raise training.max_new_tokens"
            )
        remedy = _remedy([one.accuracy for one in steps if one.accuracy is not None])
        return f"nothing to learn from: completions of one prompt never had different rewards. {remedy}"
    if is_unchanged:
        return (
            "no step was better on the validation set than step 0, whose adapter is kept. "
            "Try more steps, another training.learning_rate, or a larger data.validation_size"
        )
    return None


def _remedy(accuracies: Sequence[float]) -> str:
    accuracy = fmean(accuracies) if accuracies else 0.5
    if 0.1 <= accuracy <= 0.9:
        return "Raise training.group_size or training.temperature"
    hard = "hard: use easier problems or a stronger model" if accuracy < 0.1 else "easy: use harder problems"
    return f"At {accuracy:.0%} right the problems are too {hard}, or raise training.group_size"


def _curves(run: StoredRun, role: Role, *, title: str) -> Iterator[TrainingCurve]:
    rollouts = {
        agent: [(one.step, one.accuracy) for one in steps if one.accuracy is not None]
        for agent, steps in _by_agent(run, role, "metrics.jsonl", _Step).items()
    }
    validations = _by_agent(run, role, "validation.jsonl", Validation)
    for agent in dict.fromkeys((*(name for name, steps in rollouts.items() if steps), *validations)):
        records = validations.get(agent, [])
        # Every record that was the best so far is marked; the last of them is the adapter in use.
        kept = max((index for index, one in enumerate(records) if one.is_best), default=None)
        points = [ValidationPoint(one.step, one.accuracy, index == kept) for index, one in enumerate(records)]
        yield TrainingCurve(title, role, agent, smoothed(rollouts.get(agent, [])), tuple(points))


def _by_agent(run: StoredRun, role: str, file: str, kind: type[Record]) -> dict[str, list[Record]]:
    path = run.path(role, file)
    records: dict[str, list[Record]] = {}
    for record in StoredRecords(path, kind) if path.is_file() else ():
        records.setdefault(record.agent, []).append(record)
    return records
