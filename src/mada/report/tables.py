"""The headline table: one description, shown as Markdown or in a terminal.

What a reader wants first comes first: how good, by how much, for how many tokens; then the benchmarks. A terminal that
is too narrow gets the columns in several tables, each with the systems in front; leaving out the standard errors of
verdicts, and of benchmarks too, is tried first, and done if it makes fewer tables or brings p to the differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mada.evaluation.statistics import Estimate
from mada.evaluation.summary import Summary, SystemSummary
from mada.report.markdown import escaped, printable
from mada.report.markdown import table as markdown_table
from mada.report.numbers import NOTHING, REFERENCE, count_text, counted, p_text, quoted, share_text, starred

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
        Column("calls", tuple(count_text(one.calls) for one in systems)),
        _estimates("accuracy", [one.accuracy for one in systems]),
        _estimates("verdict", [one.verdict for one in systems]),
        *_against_reference(systems),
        Column("tokens", tuple(f"{one.tokens:,.0f}" for one in systems)),
        Column("improves", tuple(share_text(one.improves) for one in systems)),
        Column("damages", tuple(share_text(one.damages) for one in systems)),
        *benchmarks,
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
    shorter = [replace(column, errors=()) if column.heading == "verdict" else column for column in table.columns]
    shortest = [replace(column, errors=()) if column.is_benchmark else column for column in shorter]
    ways = [_parts(columns, width=width) for columns in (table.columns, shorter, shortest)]
    return [_terminal_table(part) for part in min(ways, key=lambda parts: (len(parts), _place_of_p(parts)))]


def _place_of_p(parts: Sequence[Sequence[Column]]) -> int:
    return next((place for place, part in enumerate(parts) if any(column.heading == "p" for column in part)), 0)


def _parts(columns: Sequence[Column], *, width: int) -> list[list[Column]]:
    titles, *others = columns
    parts = [[titles]]
    for column in others:
        if len(parts[-1]) > 1 and _width([*parts[-1], column]) > width:
            parts.append([titles])
        parts[-1].append(column)
    return parts


def replies_markdown(summary: Summary) -> str:
    """Return how many replies were cut off or had no answer, and how many votes were tied, in percent."""
    columns = {
        "replies cut off": [one.truncated for one in summary.systems],
        "replies without an answer": [one.unanswered for one in summary.systems],
        "tied votes": [one.ties for one in summary.systems],
    }
    if any(one.unfit for one in summary.systems):
        columns["replies never given: no room for the question"] = [one.unfit for one in summary.systems]
    titles = (escaped(one.system.title) for one in summary.systems)
    rows = zip(titles, *(map(share_text, shares) for shares in columns.values()), strict=True)
    return markdown_table(["system", *columns], list(rows))


def _against_reference(systems: Sequence[SystemSummary]) -> list[Column]:
    """Return by how much each system differs from the reference and how sure that is; nothing for a lone system."""
    if len(systems) == 1:
        return []
    compared = [one.against_reference for one in systems]
    return [
        Column("difference", tuple(REFERENCE if one is None else starred(one) for one in compared)),
        Column("p", tuple(NOTHING if one is None else p_text(one.p) for one in compared)),
    ]


def _estimates(heading: str, estimates: Sequence[Estimate], *, is_benchmark: bool = False) -> Column:
    return Column(
        heading,
        tuple(share_text(one.mean) for one in estimates),
        tuple("" if one.standard_error is None else f" ± {share_text(one.standard_error)}" for one in estimates),
        is_benchmark=is_benchmark,
    )


def _notes(summary: Summary) -> tuple[str, ...]:
    problems = ", ".join(f"{name} ({count:,})" for name, count in summary.benchmarks.items())
    spread = "± is the standard error over seeds" if len(summary.seeds) > 1 else "one seed has no standard error"
    weights = " Averages give each benchmark equal weight." if len(summary.benchmarks) > 1 else ""
    difference = (
        f"difference: points of accuracy above {quoted(summary.reference.title)}. p: Welch's two-sided t-test of the "
        "seeds' averages; * below 0.05, ** below 0.01, *** below 0.001."
    )
    return (
        f"Percent, mean over {counted(len(summary.seeds), 'seed')}; {spread}. Problems: {problems}.{weights}",
        f"accuracy: {_measures(summary.systems)}. verdict: that one answer, of every system; a debate's is the vote of "
        "its last round.",
        *([difference] if len(summary.systems) > 1 else []),
        "calls, tokens: model calls and generated tokens per question. improves, damages: share of all questions on "
        "which the vote of the first round is wrong and the verdict right, and the other way round.",
        *_budgets(summary.systems),
    )


def _measures(systems: Sequence[SystemSummary]) -> str:
    deciding = [quoted(one.system.title) for one in systems if one.system.measure == "verdict"]
    mean = "the mean over the last round's answers"
    one_answer = "the system's one answer (a vote, a weighted vote, or what a judge or critics chose)"
    if not deciding:
        return f"{mean}, not {one_answer}"
    if len(deciding) == len(systems):
        return one_answer
    return f"for {', '.join(deciding)} {one_answer}, for the others {mean}"


def _budgets(systems: Sequence[SystemSummary]) -> list[str]:
    """Name the systems that had another's tokens to use up."""
    titles = {one.system.name: one.system.title for one in systems}
    matched: dict[str, list[str]] = {}
    for one in systems:
        if one.system.matched_to is not None:
            matched.setdefault(one.system.matched_to, []).append(quoted(one.system.title))
    return [
        f"{', '.join(rivals)}: as many samples as the generated tokens of {quoted(titles.get(name, name))} allow."
        for name, rivals in matched.items()
    ]


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
