"""What training came to, from its records: every agent's accuracy on the validation set, and the critics' examples."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mada.report.markdown import escaped, table
from mada.report.numbers import NOTHING, points_text, share_text
from mada.run import StoredRecords


@dataclass(frozen=True, slots=True)
class Validation:
    """What a report needs of a training's record of one validation; `is_best` says that the adapter was kept."""

    step: int
    agent: str
    accuracy: float
    length: float
    is_best: bool


@dataclass(frozen=True, slots=True)
class CriticExampleCount:
    """What a report needs of a critic's example: its part, and how many of the generators were right."""

    part: str
    generator_accuracy: float


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """An agent's first and last validation, and the one whose adapter was kept."""

    agent: str
    first: Validation
    best: Validation
    last: Validation


def read_outcomes(path: Path) -> list[TrainingOutcome]:
    """Return the outcome of each agent, in the order in which they were first validated."""
    validations: dict[str, list[Validation]] = {}
    for record in StoredRecords(path, Validation):
        validations.setdefault(record.agent, []).append(record)
    return [_outcome(agent, records) for agent, records in validations.items()]


def outcomes_markdown(outcomes: Iterable[TrainingOutcome]) -> str:
    """Return the agents' outcomes as a Markdown table."""
    header = ["agent", "first", "best", "gain", "best at step", "last", "last step", "tokens, first", "tokens, best"]
    return table(
        header,
        [
            [
                escaped(one.agent),
                share_text(one.first.accuracy),
                share_text(one.best.accuracy),
                points_text(one.best.accuracy - one.first.accuracy),
                f"{one.best.step:,}",
                share_text(one.last.accuracy),
                f"{one.last.step:,}",
                f"{one.first.length:,.0f}",
                f"{one.best.length:,.0f}",
            ]
            for one in outcomes
        ],
    )


def critic_examples_markdown(examples: Iterable[CriticExampleCount]) -> str:
    """Return how many examples each part has, by the share of generators that were right."""
    counts = Counter((one.part, round(one.generator_accuracy, 6)) for one in examples)
    parts = sorted({part for part, _ in counts})
    shares = sorted({share for _, share in counts})
    rows = [
        [escaped(part), *(str(counts[part, share] or NOTHING) for share in shares), f"{_total(counts, part):,}"]
        for part in parts
    ]
    return table(["part", *(f"{100 * share:.0f} % right" for share in shares), "all"], rows)


def _total(counts: Counter[tuple[str, float]], part: str) -> int:
    return sum(count for (name, _), count in counts.items() if name == part)


def _outcome(agent: str, records: list[Validation]) -> TrainingOutcome:
    # The last one that was marked is the adapter that is in use.
    kept = [record for record in records if record.is_best]
    return TrainingOutcome(agent, first=records[0], best=kept[-1] if kept else records[-1], last=records[-1])
