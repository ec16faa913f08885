"""The headline table: one description, shown as Markdown or in a terminal.

A terminal that is too narrow gets the columns in several tables, each with the systems in front; leaving out the
benchmarks' standard errors is tried first, and done if it makes fewer tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mada.evaluation.statistics import Comparison, Estimate
from mada.evaluation.summary import Summary, SystemSummary
from mada.report.markdown import escaped, printable
from mada.report.markdown import table as markdown_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTHING = "–"
LONGEST_TITLE = 32
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, its cells from top to bottom, and their standard errors where it has any."""

    heading: str
    cells: tuple[str, ...]
    errors: tuple[str, ...] = ()
    is_benchmark: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The cells as shown: `72.0 ± 0.2`."""
        if not self.errors:
            return self.cells
        return tuple(f"{cell}{error}" for cell, error in zip(self.cells, self.errors, strict=True))


@dataclass(frozen=True, slots=True)
class HeadlineTable:
    """Systems in the first column, and what to know about each in the others; `notes` say what the numbers are."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def headline(summary: Summary) -> HeadlineTable:
    """Describe the table of an evaluation."""
    systems = summary.systems
    # A single benchmark is the average, and needs no column of its own.
    names = summary.benchmarks if len(summary.benchmarks) > 1 else ()
    benchmarks = [_estimates(name, [one.benchmarks[name] for one in systems], is_benchmark=True) for name in names]
    columns = (
        Column("system", tuple(one.system.title for one in systems)),
        Column("calls", tuple(str(one.system.calls) for one in systems)),
        _estimates("accuracy", [one.accuracy for one in systems]),
        _estimates("vote", [one.vote for one in systems]),
        *benchmarks,
        Column("improves", tuple(share_text(one.improves) for one in systems)),
        Column("damages", tuple(share_text(one.damages) for one in systems)),
        Column("tokens", tuple(f"{one.tokens:,.0f}" for one in systems)),
        Column("p", tuple(p_text(one.against_reference) for one in systems)),
    )
    return HeadlineTable(columns, _notes(summary))


def headline_markdown(table: HeadlineTable) -> str:
    """Return the table and its notes as Markdown."""
    rows = zip(*(map(escaped, column.texts) for column in table.columns), strict=True)
    shown = markdown_table([escaped(column.heading) for column in table.columns], list(rows))
    return "\n\n".join([shown, *map(escaped, table.notes)])


def print_headline(table: HeadlineTable, console: "Console") -> None:
    """Print the table and its notes, as wide as the console allows."""
    from rich.text import Text

    for place, part in enumerate(terminal_tables(table, width=console.width)):
        if place:
            console.print()
        console.print(part)
    console.print()
    for note in table.notes:
        console.print(Text(printable(note)))


def terminal_tables(table: HeadlineTable, *, width: int) -> list["Table"]:
    """Return the table for a terminal: one if it fits, or several with the systems in front of each."""
    shorter = [replace(column, errors=()) if column.is_benchmark else column for column in table.columns]
    parts = min(_parts(table.columns, width=width), _parts(shorter, width=width), key=len)
    return [_terminal_table(part) for part in parts]


def _parts(columns: Sequence[Column], *, width: int) -> list[list[Column]]:
    titles, *others = columns
    parts = [[titles]]
    for column in others:
        if len(parts[-1]) > 1 and _width([*parts[-1], column]) > width:
            parts.append([titles])
        parts[-1].append(column)
    return parts


def differences_markdown(summary: Summary) -> str:
    """Return every system's difference from the reference, in points, with standard error and 95 % interval (E2)."""
    header = [f"against {escaped(summary.reference.title)}", "difference", "SE", "95 % interval", "p"]
    rows = [
        [escaped(one.system.title), *_difference_cells(one.against_reference)]
        for one in summary.systems
        if one.against_reference is not None
    ]
    return markdown_table(header, rows)


def replies_markdown(summary: Summary) -> str:
    """Return how many replies were cut off or had no answer, and how many votes were tied, in percent."""
    rows = [
        [escaped(one.system.title), *map(share_text, (one.truncated, one.unanswered, one.ties))]
        for one in summary.systems
    ]
    return markdown_table(["system", "replies cut off", "replies without an answer", "tied votes"], rows)


def share_text(share: float | None) -> str:
    """Return a share as a percentage without its sign: `72.0`."""
    return NOTHING if share is None else f"{100 * share:.1f}"


def points_text(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign: `−5.2`."""
    # Adding 0.0 turns the −0.0 of a tiny negative difference into 0.0.
    return f"{round(100 * difference, 1) + 0.0:+.1f}".replace("-", "−")


def p_text(comparison: Comparison | None) -> str:
    """Return a p-value with its stars; the reference is compared with nothing."""
    if comparison is None:
        return "reference"
    if comparison.p is None:
        return NOTHING
    number = "<0.001" if comparison.p < 0.001 else f"{comparison.p:.3f}"
    return f"{number} {comparison.stars}".rstrip()


def _estimates(heading: str, estimates: Sequence[Estimate], *, is_benchmark: bool = False) -> Column:
    return Column(
        heading,
        tuple(share_text(one.mean) for one in estimates),
        tuple("" if one.standard_error is None else f" ± {share_text(one.standard_error)}" for one in estimates),
        is_benchmark=is_benchmark,
    )


def _difference_cells(comparison: Comparison) -> list[str]:
    interval = NOTHING
    if comparison.low is not None and comparison.high is not None:
        interval = f"{points_text(comparison.low)} to {points_text(comparison.high)}"
    return [
        points_text(comparison.difference),
        share_text(comparison.standard_error),
        interval,
        escaped(p_text(comparison)),
    ]


def _notes(summary: Summary) -> tuple[str, ...]:
    problems = ", ".join(f"{name} ({count:,})" for name, count in summary.benchmarks.items())
    spread = "± is the standard error over seeds" if len(summary.seeds) > 1 else "one seed has no standard error"
    weights = " Averages give each benchmark equal weight." if len(summary.benchmarks) > 1 else ""
    return (
        f"Percent, mean over {_counted(len(summary.seeds), 'seed')}; {spread}. Problems: {problems}.{weights}",
        f"accuracy: {_measures(summary.systems)}. vote: that of the last round.",
        "calls, tokens: model calls and generated tokens per question. improves, damages: share of all questions on "
        "which the vote of the first round is wrong and that of the last right, and the other way round.",
        f"p: Welch's two-sided t-test of the seeds' averages against “{summary.reference.title}”; "
        "* below 0.05, ** below 0.01, *** below 0.001.",
    )


def _measures(systems: Sequence[SystemSummary]) -> str:
    voting = [f"“{one.system.title}”" for one in systems if one.system.measure == "vote"]
    mean = "the mean over the last round's answers"
    if not voting:
        return mean
    vote = f"the vote of the last round for {', '.join(voting)}"
    return vote if len(voting) == len(systems) else f"{vote}, for the others {mean}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _width(columns: Sequence[Column]) -> int:
    return sum(_column_width(column) for column in columns) + _GAP * (len(columns) - 1)


def _column_width(column: Column) -> int:
    from rich.cells import cell_len

    longest = max(cell_len(printable(text)) for text in (column.heading, *column.texts))
    return longest if column.heading != "system" else min(longest, LONGEST_TITLE)


def _terminal_table(columns: Sequence[Column]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        heading = Text(printable(column.heading))
        if place == 0:
            shown.add_column(heading, max_width=LONGEST_TITLE, overflow="fold")
        else:
            shown.add_column(heading, justify="right", no_wrap=True)
    for texts in zip(*(column.texts for column in columns), strict=True):
        shown.add_row(*(Text(printable(text)) for text in texts))
    return shown
