"""Tables in terminals of every width, with colours and without, and with text that would steer them."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from mada.report.document import Cell, Column, Shade, Table, row
from mada.report.forms.terminal import print_table, terminal_tables

SMALL = Table(
    "small",
    "A title [bold]x",
    (
        Column("system", "text"),
        Column("accuracy", group="seeds"),
        Column("p", group="seeds"),
        Column("remark", "text"),
    ),
    (
        (row("base", [Cell("39.9(3)"), Cell("–"), "first"]),),
        (
            row("MADA", [Cell("41.9(1.3)", shade=Shade("green", 50)), Cell("<0.001", "***"), "x"]),
            row("other", [Cell("40.9(2)", shade=Shade("red", 0)), Cell("0.020", "*"), "long"]),
        ),
    ),
    notes=("A note.", "Another."),
)
# Numbers stand under each other, stars to the right of them.
SMALL_SHOWN = """
A title [bold]x

            seeds       seeds
system   accuracy           p  remark
─────────────────────────────────────
base      39.9(3)       –      first
─────────────────────────────────────
MADA    41.9(1.3)  <0.001 ***  x
other     40.9(2)   0.020 *    long

A note.
Another.
"""


def printed(table, width, *, colours=None):
    """What is printed without the blanks that fill lines up, in a terminal with these colours or into a file."""
    file = io.StringIO()
    if colours is None:
        print_table(table, Console(file=file, width=width, force_terminal=False))
    else:
        print_table(table, Console(file=file, width=width, force_terminal=True, color_system=colours))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().split("\n")[:-1])


def test_a_table_to_the_letter():
    assert printed(SMALL, 80) == SMALL_SHOWN.lstrip()


def test_shades_are_colours_where_there_are_any():
    text = printed(SMALL, 80, colours="truecolor")
    # Half of 36B700 and half of EDEDED; and none of the red, which leaves light gray. Black on both.
    assert "\x1b[30;48;2;146;210;118m41.9(1.3)\x1b[0m" in text
    assert "\x1b[30;48;2;237;237;237m  40.9(2)\x1b[0m" in text
    assert text.count("\x1b[30;") == 2
    # Cut down to what a simple terminal has.
    assert "\x1b[30;4" in printed(SMALL, 80, colours="standard")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert [line.rstrip() for line in plain.split("\n")] == SMALL_SHOWN.lstrip().split("\n")


def test_nothing_is_coloured_without_colours(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "48;2" not in printed(SMALL, 80, colours="truecolor")


@pytest.fixture
def paper_sized():
    columns = (
        Column("system", "text"),
        *(Column(f"benchmark-{place}") for place in range(5)),
        Column("improves", group="critics of the debate"),
        Column("damages", group="critics of the debate"),
        Column("average"),
    )
    cells = [*["28.4(1.3)"] * 5, "19.6", "3.5", Cell("41.9(3)", "***")]
    groups = tuple(
        tuple(row(f"system [b]{group}{place} of the twelve", cells) for place in range(3)) for group in range(4)
    )
    return Table("t", "Paper-sized", columns, groups)


@pytest.mark.parametrize("width", [46, 60, 80, 100, 120, 140, 200])
def test_narrow_terminals_lose_no_number(paper_sized, width):
    text = printed(paper_sized, width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert text.count("28.4(1.3)") == 5 * 12
    assert text.count("41.9(3) ***") == 12
    headings = " ".join(text.split()).split()
    for heading in ("benchmark-0", "benchmark-4", "improves", "damages", "average"):
        assert headings.count(heading) == 1
    # Every part has the systems in front, and rules between its groups.
    parts = terminal_tables(paper_sized, width=width)
    assert headings.count("system") - 12 * len(parts) == len(parts)
    assert text.count("──\n") == 4 * len(parts)


def test_a_group_that_does_not_fit_is_taken_apart(paper_sized):
    lines = printed(paper_sized, 46).splitlines()
    assert not any("improves" in line and "damages" in line for line in lines)
    assert sum("critics of the debate" in line for line in lines) == 2


def test_a_title_is_folded_sooner_where_that_saves_a_table():
    title = "a system with a rather long title too"
    table = Table("t", "t", (Column("s", "text"), Column("a"), Column("b")), ((row(title, ["1" * 20, "2" * 20]),),))
    assert [line.strip() for line in printed(table, 90).splitlines()[4:6]] == [
        "a system with a rather long title   11111111111111111111  22222222222222222222",
        "too",
    ]
    assert len(terminal_tables(table, width=78)) == 1
    assert len(terminal_tables(table, width=68)) == 1
    assert len(terminal_tables(table, width=67)) == 2


def test_words_among_starred_numbers_do_not_widen_their_column():
    cells = [Cell("−26.6", "***"), Cell("+9.5", "*"), Cell("reference")]
    table = Table("t", "t", (Column("s", "text"), Column("b")), (tuple(row("x", [cell]) for cell in cells),))
    assert printed(table, 80).splitlines()[4:] == ["x  −26.6 ***", "x   +9.5 *", "x  reference"]


def test_text_cannot_steer_the_terminal():
    hostile = "\x1b[2Jred\n\n[bold]b[/bold]\u202e" + "x" * 70
    columns = (Column(hostile, "text"), Column("[red]n", group="\x1b]0;g\x07"), Column(hostile, "text"))
    cells = [Cell("[link=x]1", "\x1b*", Shade("gray", 10)), hostile]
    text = printed(Table("t", hostile, columns, ((row(hostile, cells),),), notes=(hostile,)), 80)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count("[bold]b[/bold]") == 6
    assert "[link=x]1 �*" in text
    assert all(cell_len(line) <= 80 for line in text.splitlines())


def test_a_table_without_rows_or_notes():
    table = Table("t", "Nothing", (Column("a", "text"), Column("")), ((),))
    assert printed(table, 80) == "Nothing\n\na\n────\n"
