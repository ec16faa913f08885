"""Whose ledger figures show: the debates that tables have a row for, of every run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mada.evaluation.analysis import shown_systems
from mada.evaluation.ledger import Ledger, ledger_of
from mada.report.figures.points import run_title
from mada.report.numbering import numbered_titles
from mada.report.reading import Source


@dataclass(frozen=True, slots=True)
class DebateLedger:
    """A debate's ledger with the names that a figure gives it."""

    run: str
    title: str
    ledger: Ledger


def debate_ledgers(sources: Sequence[Source]) -> Iterator[DebateLedger]:
    """Yield the ledgers of all shown debates. Families are left out: each is an average of unlike teams."""
    titles = numbered_titles(source.grid.plan for source in sources if source.grid)
    for source in sources:
        if source.grid is None:
            continue
        for system in shown_systems(source.grid):
            # Judges and best-of-n have a ledger of votes too, but no vote is their answer.
            if system.is_debate and not system.members and (ledger := ledger_of(source.grid, system)):
                yield DebateLedger(run_title(source, sources), titles[system.name], ledger)
