"""What debating changed: how right and wrong passed from round to round and from critic to critic (E3)."""

from collections.abc import Iterator, Sequence

from mada.evaluation.analysis import shown_systems
from mada.evaluation.grid import Grid
from mada.evaluation.ledger import Copying, Ledger, Outcome, Transitions, ledger_of
from mada.evaluation.ledger import Source as Origin
from mada.report.document import Cell, Column, Row, Section, Table, paragraph
from mada.report.figures.data import CriticsFigure, FlowFigure
from mada.report.numbering import numbered_titles
from mada.report.numbers import share_text
from mada.report.sections.entries import figure_place

Kept = Sequence[tuple[str, Ledger]]
"""Titles of debates with their ledgers; every table has a group of rows for each."""

PASSED = ("right → right", "right → wrong", "wrong → right", "wrong → wrong")
BECAME = ("debates", "share of questions", "last round's accuracy", "last vote right")
"""How often a kind of first round is, and how right the last round is then."""
TAKEN: dict[Origin, str] = {"majority": "the vote", "minority": "another answer", "new": "a new one"}
"""Where an answer may be from; no answer is from nowhere, and never right."""


def ledger_section(grid: Grid) -> Section | None:
    """Return the ledgers of all shown debates; None without any."""
    debates = [system for system in shown_systems(grid) if system.is_debate and not system.members]
    titles = numbered_titles([grid.plan])
    kept = [(titles[system.name], ledger) for system in debates if (ledger := ledger_of(grid, system)) is not None]
    if not kept:
        return None
    blocks = (
        paragraph("Shares are in percent, and no answer is a wrong one."),
        figure_place(FlowFigure),
        _votes(kept),
        _critics(kept),
        figure_place(CriticsFigure),
        _by_right(kept),
        *_by_seat(kept),
        _copying(kept),
    )
    return Section("debating", "What debating changed", blocks)


def _votes(kept: Kept) -> Table:
    """Return how the votes passed from the first round to the last, and step by step where there are several."""
    return Table(
        "votes",
        "Votes, from the first round's to the last's",
        (Column("debate", "text"), Column("rounds", "text"), *map(Column, PASSED)),
        tuple(tuple(_steps(title, ledger)) for title, ledger in kept),
        ("Of all questions: wrong → right is what debating improved, right → wrong what it damaged.",),
    )


def _steps(title: str, ledger: Ledger) -> Iterator[Row]:
    rounds = len(ledger.votes) + 1
    yield _row(title, f"1 → {rounds}", *_passed(ledger.overall))
    if rounds > 2:
        for number, step in enumerate(ledger.votes, start=1):
            yield _row(title, f"{number} → {number + 1}", *_passed(step))


def _critics(kept: Kept) -> Table:
    """Return what every critic made of the vote that it was shown."""
    return Table(
        "critics",
        "Critics, from the vote they were shown to their own answer",
        (Column("debate", "text"), Column("critic", "text"), *map(Column, PASSED)),
        tuple(
            tuple(_row(title, critic, *_passed(turns)) for critic, turns in ledger.turns.items())
            for title, ledger in kept
        ),
        ("Of the critic's turns.",),
    )


def _by_right(kept: Kept) -> Table:
    """Return what became of first rounds with so many right generators."""
    return Table(
        "by-right",
        "By how many generators were right in the first round",
        (Column("debate", "text"), Column("generators right"), *map(Column, BECAME)),
        tuple(
            tuple(
                _became(title, f"{right} of {len(ledger.by_right) - 1}", one)
                for right, one in enumerate(ledger.by_right)
            )
            for title, ledger in kept
        ),
        (
            "How often that is, and how right the last round is then. Debates that help where few were right do more "
            "than count votes.",
        ),
    )


def _by_seat(kept: Kept) -> Iterator[Table]:
    """Yield what became of the only right answer of a first round; nothing where nobody had company there."""
    several = [(title, ledger) for title, ledger in kept if len(ledger.by_seat) > 1]
    if several:
        yield Table(
            "by-seat",
            "Where one generator alone was right, by its seat",
            (Column("debate", "text"), Column("seat"), *map(Column, BECAME)),
            tuple(
                tuple(_became(title, str(seat), one) for seat, one in enumerate(ledger.by_seat, start=1))
                for title, ledger in several
            ),
            (
                "Critics see responses in the order of the seats, unless the recipe shuffles them. Unshuffled, where "
                "one seat's answers are taken up far more often than another's, they go by place, not by content.",
            ),
        )


def _copying(kept: Kept) -> Table:
    """Return where answers are from, of all critics together and of each."""
    columns = [Column(heading, group=source) for source in TAKEN.values() for heading in ("share", "right")]
    return Table(
        "sources",
        "Where critics have their answers from",
        (Column("debate", "text"), Column("critic", "text"), *columns, Column("no answer")),
        tuple(tuple(_row(title, who, *_taken(copying)) for who, copying in _copiers(ledger)) for title, ledger in kept),
        (
            "From the vote of the round before, from another answer given there, or from nowhere: the share of "
            "critics' turns, and how many of those are right.",
        ),
    )


def _copiers(ledger: Ledger) -> Iterator[tuple[str, Copying]]:
    if len(ledger.copying_by_critic) > 1:
        yield "all", ledger.copying
    yield from ledger.copying_by_critic.items()


def _taken(copying: Copying) -> list[str]:
    given = [value for source in TAKEN for value in (copying[source].share, copying[source].accuracy)]
    return [*map(share_text, given), share_text(copying["none"].share)]


def _passed(transitions: Transitions) -> list[str]:
    one = transitions
    return [*map(share_text, (one.right_to_right, one.right_to_wrong, one.wrong_to_right, one.wrong_to_wrong))]


def _became(title: str, kind: str, one: Outcome) -> Row:
    return _row(title, kind, f"{one.count:,}", *map(share_text, (one.share, one.accuracy, one.vote)))


def _row(*texts: str) -> Row:
    return tuple(Cell(text) for text in texts)
