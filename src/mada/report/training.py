"""Reading what training came to: every agent's accuracy on the validation set, for tables and figures alike."""

from dataclasses import dataclass

from mada.report.reading import training_records
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
