"""What training came to: every agent's accuracy on the validation set, first, best and last."""

from collections.abc import Sequence

from mada.report.document import Column, Row, Section, Table, paragraph, row
from mada.report.figures.data import AdvantagesFigure, TrainingFigure
from mada.report.numbers import points_text, share_text
from mada.report.reading import ROLES, Source
from mada.report.sections.entries import figure_place
from mada.report.training import TrainingOutcome, read_outcomes


def training_section(source: Source) -> Section | None:
    """Return what became of every agent, generators first; None before anybody was validated."""
    outcomes = [of_role for role in ROLES if (of_role := read_outcomes(source.run, role))]
    if not outcomes:
        return None
    explanation = paragraph(
        "Accuracy on the validation set in percent, and mean tokens of a reply. The best adapter is chosen by this "
        "very set, so its number flatters it; the results of the evaluation do not."
    )
    blocks = explanation, _table(outcomes), figure_place(TrainingFigure), figure_place(AdvantagesFigure)
    return Section("training", "Training", blocks)


def _table(outcomes: Sequence[Sequence[TrainingOutcome]]) -> Table:
    """Return a row for every agent, generators and critics in groups of their own."""
    return Table(
        "training",
        "Every agent on the validation set",
        (
            Column("agent", "text"),
            *(Column(heading, group="accuracy") for heading in ("first", "best", "gain", "last")),
            *(Column(heading, group="step") for heading in ("best", "last")),
            *(Column(heading, group="tokens") for heading in ("first", "best")),
        ),
        tuple(tuple(map(_row, of_role)) for of_role in outcomes),
    )


def _row(one: TrainingOutcome) -> Row:
    return row(
        one.agent,
        [
            share_text(one.first.accuracy),
            share_text(one.best.accuracy),
            points_text(one.best.accuracy - one.first.accuracy),
            share_text(one.last.accuracy),
            f"{one.best.step:,}",
            f"{one.last.step:,}",
            f"{one.first.length:,.0f}",
            f"{one.best.length:,.0f}",
        ],
    )
