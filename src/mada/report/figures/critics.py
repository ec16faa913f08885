"""What critics make of a first round, by how many of its generators were right: whether they add or only repeat."""

from collections.abc import Sequence

from mada.report.figures.data import CriticsFigure, RightCount, RightCounts
from mada.report.figures.debates import DebateLedger, debate_ledgers
from mada.report.reading import Source


def critics_figure(sources: Sequence[Source]) -> CriticsFigure | None:
    """Return every shown debate by its number of right generators; None where nobody debated."""
    systems = tuple(_counts(debate) for debate in debate_ledgers(sources))
    return CriticsFigure(systems) if systems else None


def _counts(debate: DebateLedger) -> RightCounts:
    outcomes = debate.ledger.by_right
    return RightCounts(
        run=debate.run,
        title=debate.title,
        generators=len(outcomes) - 1,
        counts=tuple(
            RightCount(right, one.count, share=one.share, accuracy=one.accuracy, vote=one.vote)
            for right, one in enumerate(outcomes)
        ),
    )
