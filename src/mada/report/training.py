"""Reading what training came to: every agent's accuracy on the validation set, and who has not improved."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from mada.report.reading import ROLES, training_records
from mada.run import StoredRecords, StoredRun


@dataclass(frozen=True, slots=True)
class Validation:
    """What a report needs of a training's record of one validation; `is_best` says that the adapter was kept."""

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
class Learning:
    """What a warning needs of a training's record of one step."""

    step: int
    agent: str
    accuracy: float | None
    truncated_share: float
    skipped_share: float


def finished_training_warnings(run: StoredRun) -> list[str]:
    """Return the warnings of every training of a run that is finished."""
    done = {mark.name for mark in run.finished_stages()}
    return [warning for role in ROLES if role in done for warning in training_warnings(run, role)]


def training_warnings(run: StoredRun, role: str) -> list[str]:
    """Say which agents of a role had nothing to learn from or did not improve, and what is likely to help."""
    path = training_records(run, role, "metrics.jsonl")
    steps: dict[str, list[Learning]] = {}
    for record in StoredRecords(path, Learning) if path else ():
        steps.setdefault(record.agent, []).append(record)
    unchanged = {one.agent for one in read_outcomes(run, role) if one.last.step > 0 and one.best.step == 0}
    agents: dict[str, list[str]] = {}
    for agent, taken in steps.items():
        for warning in _warnings(taken, kept_first=agent in unchanged):
            agents.setdefault(warning, []).append(agent)
    return [f"{', '.join(who)}: {warning}" for warning, who in agents.items()]


def _warnings(taken: Sequence[Learning], *, kept_first: bool) -> Iterator[str]:
    """Yield why an agent is no better than before, if it is not; the first reason explains the later ones."""
    if all(one.skipped_share == 1 for one in taken):
        accuracies = [one.accuracy for one in taken if one.accuracy is not None]
        cut_off = fmean(one.truncated_share for one in taken)
        if cut_off >= 0.5:
            yield (
                f"nothing to learn from: every completion was skipped, and {cut_off:.0%} of them were cut off at the "
                "token limit. Raise training.max_new_tokens"
            )
        else:
            remedy = _remedy(fmean(accuracies) if accuracies else None)
            yield f"nothing to learn from: completions of one prompt never had different rewards. {remedy}"
    elif kept_first:
        yield (
            "no step was better on the validation set than step 0, whose adapter is kept. "
            "Try more steps, another training.learning_rate, or a larger data.validation_size"
        )


def _remedy(accuracy: float | None) -> str:
    if accuracy is None or 0.1 <= accuracy <= 0.9:
        return "Raise training.group_size or training.temperature"
    hard = "hard: use easier problems or a stronger model" if accuracy < 0.1 else "easy: use harder problems"
    return f"At {accuracy:.0%} right the problems are too {hard}, or raise training.group_size"


def read_outcomes(run: StoredRun, role: str) -> list[TrainingOutcome]:
    """Return the outcome of each agent of a role, in the order in which they were first validated."""
    path = training_records(run, role, "validation.jsonl")
    if path is None:
        return []
    validations: dict[str, list[Validation]] = {}
    for record in StoredRecords(path, Validation):
        validations.setdefault(record.agent, []).append(record)
    return [_outcome(agent, records) for agent, records in validations.items()]


def _outcome(agent: str, records: list[Validation]) -> TrainingOutcome:
    # The last one that was marked is the adapter that is in use.
    kept = [record for record in records if record.is_best]
    return TrainingOutcome(agent, first=records[0], best=kept[-1] if kept else records[-1], last=records[-1])
