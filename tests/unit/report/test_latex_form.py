"""Tables in LaTeX: to the letter, with every character standing for itself, and through pdflatex for real."""

import re
import shutil
import subprocess

import pytest

from mada.report.document import Cell, Column, Shade, Table, row
from mada.report.forms.latex import latex, latex_document, latex_text

SMALL = Table(
    "small_one",
    "50 % of A_1 & B",
    (
        Column("system", "text"),
        Column("accuracy", group="over seeds"),
        Column("p", group="over seeds"),
        Column("interval"),
        Column("remark", "text"),
    ),
    (
        (row("base", [Cell("39.9(3)"), Cell("–"), "–", "first"]),),
        (
            row("MADA", [Cell("41.9(1.3)", shade=Shade("green", 80)), Cell("<0.001", "***"), "[−1.0, +3.0]", "x^2"]),
            row("[other]", [Cell("1,041.88(12)", shade=Shade("red", 7)), Cell("0.020", "*"), "72.0 ± 0.2", "*"]),
        ),
    ),
    notes=("p < 0.05.", "More."),
)
SMALL_LATEX = r"""
\begin{table}[htbp]
\centering
\caption{50 \% of A\_1 \& B}\label{tab:small-one}
\par\smallskip
\begin{tabular}{l S[table-format=4.2(2)] S[table-format=<1.3]@{}l r l}
\toprule
\multicolumn{1}{c}{} & \multicolumn{3}{c}{over seeds} & \multicolumn{2}{c}{} \\
\cmidrule(lr){2-4}
system & {accuracy} & \multicolumn{2}{c}{p} & interval & remark \\
\midrule
base & 39.9(3) & {--} & & -- & first \\
\midrule
MADA & \cellcolor{madagreen!80!madalightgray} 41.9(13) & <0.001 & \textsuperscript{***} & """
SMALL_LATEX += r"""{[}\ensuremath{-}1.0, +3.0{]} & x\textasciicircum{}2 \\
{[}other{]} & \cellcolor{madared!7!madalightgray} 1041.88(12) & 0.020 & \textsuperscript{*} & """
SMALL_LATEX += r"""72.0 \ensuremath{\pm} 0.2 & {*} \\
\bottomrule
\end{tabular}
\begin{flushleft}
\par\smallskip
{\footnotesize p \textless{} 0.05.\par}
\par\smallskip
{\footnotesize More.\par}
\end{flushleft}
\end{table}
"""


def test_a_table_to_the_letter():
    assert latex(SMALL) == SMALL_LATEX.lstrip()


def numbers(*cells):
    table = Table("t", "t", (Column("a", "text"), Column("b")), (tuple(row("x", [cell]) for cell in cells),))
    found = re.search(r"begin\{tabular\}\{l (.*)\}", latex(table))
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("cells", "specification"),
    [
        (["41.9(3)", "9.1(2)"], "S[table-format=2.1(1)]"),
        (["28.4(1.3)", "72.81(19)"], "S[table-format=2.2(2)]"),
        (["5.0(11.2)", "33.3(33.3)"], "S[table-format=2.1(3)]"),
        (["−5.2(5)", "0.0(4)", "–"], "S[table-format=+1.1(1)]"),
        (["<0.001", "0.030"], "S[table-format=<1.3]"),
        (["1.10e8", "3.69e7", "0"], "S[table-format=1.2e1]"),
        (["12,345", "7"], "S[table-format=5]"),
        (["+1,364,867", "–"], "S[table-format=+7]"),
        # Sizes from 1e-06 to 16 cannot stand under each other, and words are no numbers.
        (["1e-06", "16"], "r"),
        (["–", "reference"], "r"),
        # Digits that siunitx does not know, and more of them than TeX has room for.
        (["٣", "1" * 25], "r"),
        (["1.2.3", "12,34", "1e", "(3)", "--1", "1(2"], "r"),
    ],
)
def test_columns_keep_the_room_that_their_numbers_need(cells, specification):
    assert numbers(*cells) == specification


def test_long_cells_are_cut_off_and_notes_are_not():
    long = "w" * 101
    table = Table("t", long, (Column(long, "text"), Column("b", "text")), ((row("x" * 100, [long]),),), notes=(long,))
    text = latex(table)
    assert f"{'x' * 100} & {'w' * 99}\\dots{{}} \\\\\n" in text
    assert text.count("w" * 100) == 2


def test_only_wide_tables_are_scaled_down():
    def table(columns, width):
        cells = [row("x", ["1" * width] * columns)]
        return Table("t", "t", (Column("a", "text"), *[Column("b")] * columns), (tuple(cells),))

    assert "resizebox" not in latex(table(8, 3))
    assert "resizebox" in latex(table(9, 3))
    assert "resizebox" in latex(table(4, 20))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, text-1.5 (b)", "plain, text-1.5 (b)"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("$a_1^2$ % & # ~", r"\$a\_1\textasciicircum{}2\$ \% \& \# \textasciitilde{}"),
        ('<a|b> "q" `r`', r"\textless{}a\textbar{}b\textgreater{} \symbol{34}q\symbol{34} \symbol{96}r\symbol{96}"),
        ("−1 – 2 → 3 × 4 ± 5 ≥ 6", r"\ensuremath{-}1 -- 2 \ensuremath{\rightarrow} 3 \ensuremath{\times} 4 "),
        ("“q” ‘r’", "``q'' {`}r{'}"),
        ("a--b ''c ,,d", "a-{}-b '{}'c ,{},d"),
        ("café naïve Ångström ça", r"caf\'{e} na\"{i}ve \r{A}ngstr\"{o}m \c{c}a"),
        ("cafe\u0301", r"caf\'{e}"),
        ("ß ø Ł", r"\ss{} \o{} \L{}"),
        ("β₁ ε λ Ω 10¹²", r"\ensuremath{\beta}\ensuremath{_{1}} \ensuremath{\varepsilon} \ensuremath{\lambda} "),
        ("数学 😀 \u202e א", "?? ? ? ?"),
        ("a\x00\x1b[2J\nb\r\n\tc", r"a??{[}2J b c"),
        ("\ud800", "?"),
        ("x\u0301\u0301", "x??"),
    ],
)
def test_every_character_stands_for_itself(text, shown):
    assert latex_text(text).startswith(shown)


def test_what_is_written_is_ascii_whatever_was_said():
    everything = "".join(map(chr, range(0x3000)))
    assert latex_text(everything).isascii()


HOSTILE = (
    "\\end{table} \\input{/etc/passwd} $x$ %comment",
    "\\catcode`\\%=12 ^^5cdef \\csname",
    "*[ -- ]( {{}} ~#&_^ \"'` <>|",
    "[1ex] \\\\[2cm] * & & &",
    "ünïcödé ₁²³ αΩ 数学 😀 \u202e\x1b[2J\x00 e\u0301\u0301",
    "",
    " ",
    "9" * 4000,
    "W" * 4000,
)


@pytest.fixture
def hostile():
    rows = tuple(
        row(
            one,
            [
                Cell(one, "***", Shade("red", 33)),
                Cell("−1.5(1.3)", "*", Shade("green", 100)),
                Cell("1.10e8", shade=Shade("gray", 0)),
                one,
            ],
        )
        for one in HOSTILE
    )
    columns = (
        Column(HOSTILE[0], "text"),
        Column(HOSTILE[2], group=HOSTILE[1]),
        Column("", group=HOSTILE[1]),
        Column(HOSTILE[3]),
        Column(HOSTILE[4], "text"),
    )
    return Table("a_b {c}\\d", " ".join(HOSTILE), columns, (rows[:2], rows[2:]), notes=HOSTILE)


def compiled(document, folder):
    """The text of a document's pages, after pdflatex without any complaint about missing things."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (folder / "report.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-3000:]
    assert "Missing character" not in (folder / "report.log").read_text(errors="replace")
    if shutil.which("pdftotext") is None:
        return ""
    return subprocess.run(["pdftotext", "-layout", "report.pdf", "-"], cwd=folder, capture_output=True).stdout.decode()


def test_hostile_tables_compile_and_are_shown(hostile, tmp_path):
    empty = Table("empty", "No rows", (Column("a", "text"), Column("b")), ((),))
    wide = Table("wide", "Wide", tuple(Column(str(place)) for place in range(20)), ((row("1", ["−2.5(3)"] * 19),),))
    pairs = [("60.00(0)", "+0.0(5)"), ("5.0(11.2)", "0.0(4.2)"), ("33.3(33.3)", "+8.3(10.5)")]
    rows = tuple((Cell(first), Cell(second)) for first, second in pairs)
    signs = Table("signs", "Signs", (Column("a"), Column("b")), (rows,))
    text = compiled(latex_document([hostile, SMALL, empty, wide, signs]), tmp_path)
    if text:
        assert "\\input{/etc/passwd} $x$ %comment" in text
        assert "root:" not in text
        assert "1041.88(12)" in text.replace("\N{THIN SPACE}", "").replace("1 041", "1041")
        assert "41.9(1.3)" in text
        assert "Table 4: Wide" in text
        # What siunitx would leave out or turn into 28.4(13) unless told not to.
        assert "60.00(0)" in text
        assert "+0.0(5)" in text
        assert all(one in text for one in ("5.0(11.2)", "0.0(4.2)", "33.3(33.3)", "+8.3(10.5)"))


def test_errors_are_written_in_last_digits_and_one_with_more_digits_than_its_number_as_text():
    cells = ["28.4(1.3)", "−1.5(0.3)", "0.0(4.2)", "72.81(19)", "5.0(11.2)", "5(1.2)", "0.00(0)"]
    table = Table("t", "T", (Column("n"),), (tuple((Cell(one),) for one in cells),))
    written = [line.removesuffix(r" \\") for line in latex(table).splitlines() if line.endswith(r"\\")][1:]
    assert written == ["28.4(13)", "-1.5(3)", "0.0(42)", "72.81(19)", "{5.0(11.2)}", "{5(1.2)}", "0.00(0)"]
    # Some siunitx 3 refuses a point in the brackets, and more digits in them than in front of them.
    for whole, error in re.findall(r"^([\d.+-]+)\(([\d.]+)\)$", "\n".join(written), re.MULTILINE):
        assert error.isdigit()
        assert len(error) <= sum(map(str.isdigit, whole))
