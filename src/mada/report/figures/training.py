"""How training went, agent by agent: what its records say of rollouts at every step and of validations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Literal

from mada.report.figures.data import TrainingCurve, TrainingFigure, TrainingPoint, ValidationPoint
from mada.report.figures.points import run_title
from mada.report.reading import Source, training_records
from mada.report.training import Validation
from mada.run import StoredRecords

ROLES: tuple[Literal["generators", "critics"], ...] = ("generators", "critics")
WINDOWS = 10
"""A window is so small a part of all steps: short enough for a curve to turn, long enough for it not to tremble."""
SHORTEST_WINDOW = 3


@dataclass(frozen=True, slots=True)
class Rollouts:
    """What a figure needs of the record of a training step; the accuracy is None where nothing could be graded."""

    step: int
    agent: str
    accuracy: float | None


def training_figure(sources: Sequence[Source]) -> TrainingFigure | None:
    """Return the training curves of all agents; None where nobody has been trained."""
    curves = tuple(
        curve for source in sources for role in ROLES for curve in _curves(source, role, run=run_title(source, sources))
    )
    return TrainingFigure(curves) if curves else None


def smoothed(steps: Sequence[tuple[int, float]]) -> tuple[TrainingPoint, ...]:
    """Return every step's mean over a centred window, with one standard deviation of the window's values as a band.

    At the ends the window is cut off, so the first and the last points are means of fewer steps. The deviation is that
    of the values in the window themselves (by their number, not one less), which is 0 for a single one.
    """
    reach = max(SHORTEST_WINDOW, round(len(steps) / WINDOWS)) // 2
    points: list[TrainingPoint] = []
    for place, (step, _) in enumerate(steps):
        window = [value for _, value in steps[max(0, place - reach) : place + reach + 1]]
        mean, deviation = fmean(window), pstdev(window)
        points.append(TrainingPoint(step, mean, low=mean - deviation, high=mean + deviation))
    return tuple(points)


def _curves(source: Source, role: Literal["generators", "critics"], *, run: str) -> Iterator[TrainingCurve]:
    rollouts = _rollouts(training_records(source.run, role, "metrics.jsonl"))
    validations = _validations(training_records(source.run, role, "validation.jsonl"))
    for agent in dict.fromkeys((*rollouts, *validations)):
        yield TrainingCurve(
            run=run,
            role=role,
            agent=agent,
            rollouts=smoothed(rollouts.get(agent, [])),
            validation=_marked(validations.get(agent, [])),
        )


def _rollouts(path: Path | None) -> dict[str, list[tuple[int, float]]]:
    steps: dict[str, list[tuple[int, float]]] = {}
    for record in StoredRecords(path, Rollouts) if path else ():
        if record.accuracy is not None:
            steps.setdefault(record.agent, []).append((record.step, record.accuracy))
    return steps


def _validations(path: Path | None) -> dict[str, list[Validation]]:
    validations: dict[str, list[Validation]] = {}
    for record in StoredRecords(path, Validation) if path else ():
        validations.setdefault(record.agent, []).append(record)
    return validations


def _marked(records: Sequence[Validation]) -> tuple[ValidationPoint, ...]:
    # Every record was marked that was the best so far; the last of them is the adapter that is in use.
    kept = max((place for place, record in enumerate(records) if record.is_best), default=None)
    return tuple(
        ValidationPoint(record.step, record.accuracy, is_best=place == kept) for place, record in enumerate(records)
    )
