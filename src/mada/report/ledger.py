"""What debating changed: how right and wrong passed from round to round and from critic to critic (E3)."""

from collections.abc import Iterator, Sequence

from mada.evaluation.analysis import shown_systems
from mada.evaluation.grid import Grid
from mada.evaluation.ledger import SOURCES, Copying, Ledger, Taken, Transitions, ledger_of
from mada.report.markdown import escaped, table
from mada.report.numbers import share_text

Kept = Sequence[tuple[str, Ledger]]
"""Titles of debates with their ledgers."""

PASSED = ("right → right", "right → wrong", "wrong → right", "wrong → wrong")


def ledger_section(grid: Grid) -> str:
    """Return the ledgers of all shown debates; nothing without any."""
    debates = [system for system in shown_systems(grid) if system.is_debate and not system.members]
    kept = [(system.title, ledger) for system in debates if (ledger := ledger_of(grid, system)) is not None]
    if not kept:
        return ""
    return "\n\n".join(
        [
            "## What debating changed",
            "In percent of all questions. **Votes**, from the first round's to the last's: wrong → right is what "
            "debating improved, right → wrong what it damaged. No answer is a wrong one.",
            votes_markdown(kept),
            "**Critics**, from the vote they were shown to their own answer:",
            critics_markdown(kept),
            "**By how many generators were right** in the first round: how often that is, and how right the last round "
            "is then. Debates that help where few were right do more than count votes.",
            by_right_markdown(kept),
            "**Where critics have their answers from**: the vote of the round before, another answer given there, or "
            "nowhere; in brackets how many of those are right.",
            copying_markdown(kept),
        ]
    )


def votes_markdown(kept: Kept) -> str:
    """Return how the votes passed from the first round to the last, and step by step where there are several."""
    rows: list[list[str]] = []
    for title, ledger in kept:
        rounds = len(ledger.votes) + 1
        rows.append([escaped(title), f"1 → {rounds}", *_passed(ledger.overall)])
        if rounds > 2:
            steps = enumerate(ledger.votes, start=1)
            rows += [[escaped(title), f"{number} → {number + 1}", *_passed(step)] for number, step in steps]
    return table(["debate", "rounds", *PASSED], rows, left=2)


def critics_markdown(kept: Kept) -> str:
    """Return what every critic made of the vote that it was shown."""
    rows = [
        [escaped(title), escaped(critic), *_passed(turns)]
        for title, ledger in kept
        for critic, turns in ledger.turns.items()
    ]
    return table(["debate", "critic", *PASSED], rows, left=2)


def by_right_markdown(kept: Kept) -> str:
    """Return what became of first rounds with so many right generators."""
    rows = [
        [
            escaped(title),
            f"{one.right} of {len(ledger.by_right) - 1}",
            f"{one.count:,}",
            *map(share_text, (one.share, one.accuracy, one.vote)),
        ]
        for title, ledger in kept
        for one in ledger.by_right
    ]
    header = ["debate", "generators right", "debates", "share of questions", "last round's accuracy", "last vote right"]
    return table(header, rows)


def copying_markdown(kept: Kept) -> str:
    """Return where answers are from, of all critics together and of each."""
    rows = [
        [escaped(title), who, *(_taken(copying[source]) for source in SOURCES)]
        for title, ledger in kept
        for who, copying in _copiers(ledger)
    ]
    return table(["debate", "critic", "the vote", "another answer", "a new one", "no answer"], rows, left=2)


def _copiers(ledger: Ledger) -> Iterator[tuple[str, Copying]]:
    if len(ledger.copying_by_critic) > 1:
        yield "all", ledger.copying
    for critic, copying in ledger.copying_by_critic.items():
        yield escaped(critic), copying


def _passed(transitions: Transitions) -> list[str]:
    one = transitions
    return [*map(share_text, (one.right_to_right, one.right_to_wrong, one.wrong_to_right, one.wrong_to_wrong))]


def _taken(taken: Taken) -> str:
    share = share_text(taken.share)
    return share if taken.accuracy is None else f"{share} ({share_text(taken.accuracy)})"
