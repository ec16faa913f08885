"""Figures as files, and untrusted titles as labels: drawn without a warning (an error here), twice the same."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import pytest
from PIL import Image

from mada.evaluation.statistics import Comparison
from mada.evaluation.transitions import Transitions
from mada.report.figures.advantages import AdvantageCounts, AdvantagesFigure
from mada.report.figures.debates import CriticsFigure, Flow, FlowFigure, RightCount, RightCounts
from mada.report.figures.drawing import UNKNOWN, plain, shortened, wrapped
from mada.report.figures.pairs import PairsFigure
from mada.report.figures.points import (
    ParametersFigure,
    SystemPoint,
    TokensFigure,
    VoteCurve,
    VotePoint,
    axis_count,
)
from mada.report.figures.training import TrainingFigure
from mada.report.figures.writing import draw, write_figures
from mada.report.training import RolloutPoint, TrainingCurve, ValidationPoint

HOSTILE = (r"$\frac{1}{0$ <script>", "very long " * 40, "模型辩论", "", "\n\x00\u202e\\" + "x" * 300)


def letters(figure):
    """Everything that is written in a drawn figure."""
    found = figure.findobj(lambda artist: hasattr(artist, "get_text") and artist.get_visible())
    return [artist.get_text() for artist in found if artist.get_text()]


def all_figures(titles, *, run="", error: float | None = 0.01, p: float | None = 0.005):
    """One figure of each kind in which every title occurs."""
    points = tuple(
        SystemPoint(run, title, title, 100.0 * place, 0.3 + 0.05 * place, error, place == 1, place % 2 == 0)
        for place, title in enumerate(titles, 1)
    )
    votes = (VotePoint(1, 50, 0.3, error), VotePoint(9, 450, 0.5, error))
    steps = (Transitions(0.5, 0.1, 0.2, 0.2), Transitions(0.7, 0, 0, 0.3))
    rollouts = (RolloutPoint(1, 0.5, 0.4, 0.6), RolloutPoint(2, 0.6, 0.5, 1.2))
    validation = (ValidationPoint(0, 0.5, is_best=False), ValidationPoint(2, 0.6, is_best=True))
    counts = (RightCount(0, 0, 0.0, None, None), RightCount(1, 3, 0.75, 0.5, 0.6), RightCount(2, 1, 0.25, 1.0, 1.0))
    cells = tuple(
        tuple(
            None if row == column else Comparison(0.02 * (row - column), error, None, None, p)
            for column in range(len(titles))
        )
        for row in range(len(titles))
    )
    return [
        ParametersFigure(points),
        TokensFigure(points, tuple(VoteCurve(run, title, votes) for title in titles)),
        TrainingFigure(tuple(TrainingCurve(run, "critics", title, rollouts, validation) for title in titles)),
        FlowFigure(tuple(Flow(run, title, steps) for title in titles)),
        CriticsFigure(tuple(RightCounts(run, title, 2, counts) for title in titles)),
        AdvantagesFigure(
            (-1.0, 0.0, 1.0), tuple(AdvantageCounts(title, title, (1, 2), 0.1, 0.2, 0.3) for title in titles)
        ),
        PairsFigure(tuple(titles), cells),
    ]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The files of all figures of two systems, and the figures for a page."""
    return write_figures(all_figures(["one", "two"]), tmp_path_factory.mktemp("figures") / "new")


@pytest.fixture
def written(both):
    return both[0]


def test_every_figure_is_written_in_three_forms(written):
    names = ("parameters", "tokens", "training", "flow", "critics", "advantages", "pairs")
    assert [path.name for path in written] == [f"{name}.{form}" for name in names for form in ("pdf", "png", "svg")]
    assert sorted(written[0].parent.iterdir()) == sorted(written)
    for path in written:
        starts = {".pdf": b"%PDF-", ".png": b"\x89PNG\r\n", ".svg": b"<?xml"}
        assert path.read_bytes().startswith(starts[path.suffix])


def test_the_same_data_gives_the_same_bytes_without_dates(written, tmp_path):
    again, _ = write_figures(all_figures(["one", "two"]), tmp_path)
    for first, second in zip(written, again, strict=True):
        assert first.read_bytes() == second.read_bytes()
        assert b"CreationDate" not in first.read_bytes()
        assert b"Matplotlib" not in first.read_bytes()


def test_letters_are_whole_ones_and_sizes_are_those_of_print(written):
    pdf, png, *_ = written
    assert b"/Type3" not in pdf.read_bytes()
    assert b"/Subtype /Type0" in pdf.read_bytes() or b"/TrueType" in pdf.read_bytes()
    with Image.open(png) as picture:
        assert picture.width == 7.0 * 200
        assert picture.info["dpi"] == pytest.approx((200, 200), abs=0.1)


def test_hostile_titles(tmp_path):
    paths, drawings = write_figures(all_figures(HOSTILE, run="$run"), tmp_path)
    assert len(paths) == 21
    for one in drawings.values():
        parsed = ElementTree.fromstring(one.svg.replace(" xlink:href=", " href="))
        assert not {"script", "foreignObject", "image", "a"} & {element.tag for element in parsed.iter()}
        assert not [name for element in parsed.iter() for name in element.attrib if name.startswith("on")]


def test_figures_of_a_page_share_no_ids_and_have_its_colours_tips_and_values(both):
    _, drawings = both
    ids = [name for one in drawings.values() for name in re.findall(r' id="([^"]*)"', one.svg)]
    assert len(ids) == len(set(ids))
    for one in drawings.values():
        referred = re.findall(r'(?:url\(|href=")#([^")]+)', one.svg)
        assert set(referred) <= set(re.findall(r' id="([^"]*)"', one.svg))
        assert "var(--" in one.svg
        assert "#0072b2" not in one.svg.lower()
        assert one.tables
    assert "<title>one: 35.0 ± 1.0 %; 100</title>" in drawings["tokens"].svg
    assert "<title>two minus one: +2.0, p 0.005</title>" in drawings["pairs"].svg
    [row, *_] = drawings["critics"].tables[0].rows
    assert [cell.text for cell in row] == ["one", "2", "0", "0", "0", "–", "–"]


@pytest.mark.parametrize("figure", all_figures(["$x$"]), ids=lambda figure: figure.name)
def test_a_title_is_never_read_as_a_formula(figure):
    written = [text for text in letters(draw(figure)) if "x" in text and "$" in text]
    assert written
    assert all(text.count("$") == text.count(r"\$") for text in written)


def test_one_system_and_one_seed():
    for figure in all_figures(["alone"], error=None, p=None):
        assert draw(figure).axes


@pytest.mark.parametrize("figure", all_figures([f"system {place}" for place in range(20)]), ids=lambda one: one.name)
def test_many_systems_or_runs(figure):
    assert draw(figure).axes


def test_files_are_replaced_and_nothing_else_is_left(tmp_path):
    (tmp_path / "pairs.pdf").write_text("old")
    write_figures(all_figures(["one", "two"])[-1:], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.pdf", "pairs.png", "pairs.svg"]
    assert (tmp_path / "pairs.pdf").read_bytes().startswith(b"%PDF-")


def test_settings_of_the_reader_neither_matter_nor_change(written, tmp_path):
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        (own, *_), _ = write_figures(all_figures(["one", "two"])[:1], tmp_path)
        assert dict(matplotlib.rcParams) == before
    assert own.read_bytes() == written[0].read_bytes()


def test_drawing_needs_no_pyplot_and_data_no_matplotlib():
    check = (
        "import sys; import mada.report.publishing; assert 'matplotlib' not in sys.modules; "
        "import mada.report.figures.writing; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_blocks_and_changes_of_a_flow_have_their_percentages():
    figure = FlowFigure((Flow("run", "debate", (Transitions(0.5, 0.125, 0.25, 0.125),)),))
    written = letters(draw(figure))
    # Before: 62.5 right and 37.5 wrong; then 12.5 are damaged and 25 corrected; after: 75 right and 25 wrong.
    numbers = [text for text in written if text.replace(".", "").isdigit()]
    assert sorted(numbers) == ["12.5", "25.0", "25.0", "37.5", "62.5", "75.0"]
    assert "run: debate" in written


def test_numbers_stand_in_the_cells_of_few_systems_and_signs_in_those_of_many():
    few = letters(draw(all_figures(["a", "b", "c"])[-1]))
    assert few.count("+2.0\n**") == 2
    assert few.count("−4.0\n**") == 1
    many = letters(draw(all_figures([str(place) for place in range(17)])[-1]))
    assert many.count("+") == 17 * 16 / 2
    assert not any("**" in text for text in many)


def test_only_differences_beyond_chance_are_coloured():
    row = [
        None,
        Comparison(0.1, 0.05, None, None, 0.05),
        Comparison(0.1, 0.01, None, None, 0.049),
        Comparison(0.1, None, None, None, None),
    ]
    figure = PairsFigure(("a", "b", "c", "d"), (tuple(row), *[(None,) * 4] * 3))
    patches = draw(figure).axes[0].patches
    whites = [patch.get_facecolor()[:3] == (1.0, 1.0, 1.0) for patch in patches[:4]]
    assert whites == [False, True, False, True]


def test_names_of_points_are_all_there_and_apart():
    titles = [f"system number {place}" for place in range(12)]
    points = tuple(
        SystemPoint("", t, t, 5.0, 0.5 + 0.01 * place, 0.02, place == 3, False) for place, t in enumerate(titles)
    )
    figure = draw(ParametersFigure(points))
    names = [text for text in figure.axes[0].texts if text.get_text().startswith("system")]
    boxes = [text.get_window_extent() for text in names]
    assert sorted(text.get_text().replace("\n", " ") for text in names) == sorted(titles)
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])


def test_costs_far_apart_have_a_logarithmic_axis_with_a_place_for_nothing():
    def scale(*costs):
        points = tuple(SystemPoint("", str(x), str(x), x, 0.5, None, False, False) for x in costs)
        return draw(ParametersFigure(points)).axes[0].get_xscale()

    assert scale(0, 100, 1000) == "linear"
    assert scale(10, 1000) == "log"
    assert scale(0, 10, 1000) == "symlog"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (45.5, "45.5"), (5_000, "5,000"), (20_000, "20k"), (1_500_000, "1.5M"), (7e9, "7B")],
)
def test_counts_on_axes(count, text):
    assert axis_count(count) == text


def test_a_dollar_is_a_dollar():
    assert plain(r"$\frac{1}{2}$") == r"\$\frac{1}{2}\$"


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("a\nb\tc\x00\x1b[2J", "a b c [2J"),
        ("模型 7B", f"{UNKNOWN}{UNKNOWN} 7B"),
        ("\u202eright to left", "right to left"),
        ("half a pair \ud800", f"half a pair {UNKNOWN}"),
        ("ünïcödé −5 … ★", "ünïcödé −5 … ★"),
        ("", ""),
    ],
)
def test_letters_that_cannot_be_drawn_or_do_something(text, letters):
    assert plain(text) == letters


def test_shortened_to_a_width():
    assert shortened("twelve chars", 12) == "twelve chars"
    assert shortened("twelve chars more", 12) == "twelve char…"
    assert shortened("a $ at the end", 4) == r"a \$…"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one agent", "one agent"),
        ("trained vote at MADA's tokens", "trained vote at\nMADA's tokens"),
        ("generators, trained", "generators,\ntrained"),
        ("x" * 50, "x" * 17 + "…"),
        ("one two three four five six seven eight nine", "one two three four\nfive six seven…"),
        ("", ""),
    ],
)
def test_wrapped_into_lines_of_like_length(text, lines):
    assert wrapped(text, 18) == lines
