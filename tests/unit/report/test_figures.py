"""Figures: their values against numbers worked out by hand from the grid in conftest, and how they are drawn.

Over both seeds `single` is right in 3 of 8 (seed 0: 1 of 4, seed 1: 2 of 4), `vote` in 4 of 8 in either seed, and
`debate` has mean accuracies of 1, 1, ½, 0 with seed 0 and 1, 1, 1, 1 with seed 1. Every sample has 300 tokens.
"""

import math
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.text import Text
from PIL import Image

from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.statistics import Comparison
from mada.evaluation.summary import against_reference
from mada.report.figures import TITLES
from mada.report.figures.debates import critics_figure, flow_figure
from mada.report.figures.drawing import print_style, wrapped
from mada.report.figures.systems import (
    SystemPoint,
    axis_count,
    draw_pairs,
    pairs_figure,
    parameters_figure,
    tokens_figure,
    with_front,
)
from mada.report.figures.training import BINS, advantages_figure, training_figure
from mada.report.figures.writing import write_figures
from mada.report.training import RolloutPoint, read_curves, smoothed
from scores import score_of

HOSTILE = (r"$\frac{1}{0$ <script>", "very long " * 40, "模型辩论 <a href='x'>\n\x00\u202e\\" + "x" * 300)
SMALL = [("generators", "g"), ("critics", "c")]


def drawn(make, *sources) -> Any:
    """A figure of these sources, or None."""
    with print_style():
        return make(sources)


def rows(make, *sources, of=None):
    """The rows of one table of values, the first by default."""
    values = drawn(make, *sources).values
    return values[of] if of else next(iter(values.values()))


def columns(found, *names):
    return [tuple(one[name] for name in names) for one in found]


def with_plan(grid, titles=(), **parameters):
    """The grid with other titles and numbers of trained parameters."""
    plan = grid.plan
    given = dict(zip((one.name for one in plan.systems), titles, strict=False))
    systems = tuple(
        one.model_copy(update={"parameters": parameters.get(one.name), "title": given.get(one.name, one.title)})
        for one in plan.systems
    )
    return Grid.of(grid.scores.values(), plan.model_copy(update={"systems": systems}))


def credit(advantages, group_relative):
    return {"step": 1, "agent": "c", "advantages": advantages, "group_relative": group_relative, "rewards": []}


@pytest.fixture
def everything(source_of, grid, write_training):
    """A source with data for every figure, in which every title is of these."""

    def make(titles=("one", "two", "three"), *, title="first", grid=grid):
        source = source_of(with_plan(grid, titles, single=0, debate=5_000), title=title)
        for role, agent in SMALL:
            name = titles[-1] if titles else agent
            steps = [{"step": step, "agent": name, "accuracy": step / 9} for step in range(1, 9)]
            validations = [(name, 0, 0.5, True), (name, 8, 0.6, True)]
            write_training(source.run, role, validations, metrics=steps, credits=[credit([1.0, 0.0], [0.5, -0.5])])
        return source

    return make


# --- Values ---


def front(*pairs):
    points = with_front([SystemPoint("", "name", "title", x, y, None, is_reference=False) for x, y in pairs])
    return [(one.x, one.accuracy) for one in points if one.is_on_front]


@pytest.mark.parametrize(
    ("points", "on_it"),
    [
        (((0, 0.5), (1, 0.4), (2, 0.6), (2, 0.7), (3, 0.7), (4, 0.9)), [(0, 0.5), (2, 0.7), (4, 0.9)]),
        # Twins are on it together, paying more for the same is not.
        (((1, 0.5), (1, 0.5), (2, 0.5)), [(1, 0.5), (1, 0.5)]),
        # Rounding beats nobody.
        (((1, 0.1 + 0.2), (1, 0.3)), [(1, 0.1 + 0.2), (1, 0.3)]),
        (((1, 0.3), (2, 0.1 + 0.2)), [(1, 0.3)]),
    ],
)
def test_the_front_is_whatever_no_other_point_beats(points, on_it):
    assert front(*points) == on_it


def test_parameters_of_the_systems_that_have_any_known(source_of, grid):
    single, debate = rows(parameters_figure, source_of(with_plan(grid, single=0, debate=5_000)))
    # Seeds average 1/4 and 1/2: the deviation is 1/4·√½, by √2 that is 1/8.
    expected = {"run": "", "name": "single", "title": "1 one agent", "x": 0.0, "accuracy": 0.375}
    assert single == expected | {"error": pytest.approx(0.125)}
    # Its single answers average 0.625 and 1 over the seeds, its verdicts 1/2 and 1: the paper's figure has the former.
    assert (debate["title"], debate["x"], debate["accuracy"], debate["error"]) == (
        *("3 debate", 5000.0, 0.8125),
        pytest.approx(0.1875),
    )


def test_figures_without_data_are_none(source_of, grid, scores, plan):
    empty = source_of()
    for make in (parameters_figure, tokens_figure, training_figure, flow_figure, critics_figure, advantages_figure):
        assert drawn(make, empty) is None
    assert drawn(pairs_figure, empty) is None
    assert drawn(parameters_figure, source_of(grid)) is None
    assert drawn(parameters_figure, source_of(with_plan(grid, single=0, debate=0))) is None
    # Differences between accuracies on different problems would say nothing.
    fewer = Grid.of([score for score in scores if score.problem == "p"], plan)
    assert drawn(pairs_figure, source_of(grid), source_of(fewer, title="b")) is None


def test_tokens_of_all_shown_systems_and_votes_of_k_samples(source_of, grid, one_seed):
    source = source_of(grid)
    assert columns(rows(tokens_figure, source), "name", "x", "accuracy") == [
        ("single", 300.0, 0.375),
        ("vote", 1200.0, 0.5),
        ("debate", 1200.0, 0.75),
    ]
    curve = rows(tokens_figure, source, of="curves")
    assert columns(curve, "run", "title", "k") == [("", "votes of g", k) for k in (1, 2, 3, 4)]
    assert [at["tokens"] for at in curve] == pytest.approx([300, 600, 900, 1200])
    # Half of the questions have 3 of 4 right, half 2 of 4. One sample: (3/4 + 2/4) / 2. Three of them: always a right
    # majority of 3 of 4, and half of the draws of 2 of 4.
    assert [curve[place]["accuracy"] for place in (0, 2)] == pytest.approx([0.625, 0.75])
    single = source_of(one_seed, title="single")
    assert {one["error"] for of in ("points", "curves") for one in rows(tokens_figure, single, of=of)} == {None}


def test_an_agent_whose_votes_have_several_budgets_has_one_curve(source_of, scores, plan, grid):
    vote = grid.plan.systems[1]
    fewer = vote.model_copy(update={"name": "fewer", "title": "vote of 2", "generators": ("g", "g")})
    parts = ("agents", "answers", "groups", "correct", "tokens", "prompts")
    short = [
        replace(score, system="fewer", **{part: (getattr(score, part)[0][:2],) for part in parts})
        for score in scores
        if score.system == "vote"
    ]
    systems = (*plan.systems[:1], fewer, *plan.systems[1:])
    both = Grid.of([*scores, *short], plan.model_copy(update={"systems": systems}))
    assert [at["k"] for at in rows(tokens_figure, source_of(both), of="curves")] == [1, 2, 3, 4]


def test_a_window_is_centred_and_cut_off_at_the_ends():
    points = smoothed([(1, 0.0), (2, 0.6), (3, 0.9), (4, 0.9)])
    assert [one.step for one in points] == [1, 2, 3, 4]
    assert [one.value for one in points] == pytest.approx([0.3, 0.5, 0.8, 0.9])
    # 0, 0.6 and 0.9 have the deviation √((0.25 + 0.01 + 0.16) / 3).
    deviation = math.sqrt(0.14)
    assert (points[1].low, points[1].high) == pytest.approx((0.5 - deviation, 0.5 + deviation))
    # Long trainings have wider windows, and one step is its own.
    steps = [(step, float(step == 50)) for step in range(1, 101)]
    assert [one.step for one in smoothed(steps) if one.value > 0] == list(range(45, 56))
    assert smoothed([(7, 0.25)]) == (RolloutPoint(7, 0.25, 0.25, 0.25),)


def test_training_is_read_from_both_records_with_the_kept_adapter_marked(source_of, write_training):
    source = source_of()
    steps = [("g-1", 1, 0.5), ("g-2", 1, None), ("g-1", 2, 0.7), ("g-2", 2, 0.1)]
    metrics = [{"step": step, "agent": agent, "accuracy": accuracy} for agent, step, accuracy in steps]
    write_training(source.run, "generators", metrics=metrics)
    write_training(source.run, "critics", [("c", 0, 0.4, True), ("c", 5, 0.6, True), ("c", 10, 0.5, False)])
    first, second, critic = read_curves(source.run)
    assert [(one.role, one.agent) for one in (first, second, critic)] == [
        *(("generators", "g-1"), ("generators", "g-2"), ("critics", "c"))
    ]
    assert [one.value for one in first.rollouts] == pytest.approx([0.6, 0.6])
    assert second.rollouts == (RolloutPoint(2, 0.1, 0.1, 0.1),)
    assert critic.rollouts == ()
    assert critic.best.step == 5
    assert columns(rows(training_figure, source), "agent", "step", "accuracy", "is best") == [
        *(("c", 0, 0.4, False), ("c", 5, 0.6, True), ("c", 10, 0.5, False))
    ]


STEPS = ("right_to_right", "right_to_wrong", "wrong_to_right", "wrong_to_wrong")


def test_the_flow_of_votes_has_a_step_per_round_after_the_first(source_of, grid):
    # Ties go to the answer of the round before, then to the smaller, which is the right one: 6 of 8 stay right.
    [flow] = rows(flow_figure, source_of(grid))
    assert [flow[name] for name in ("run", "title", *STEPS)] == ["", "3 debate", 0.75, 0.0, 0.125, 0.125]
    system = PlannedSystem(name="long", title="long", generators=("g",) * 3, critics=("c-1", "c|2"), rounds=3)
    # Votes go right-right-wrong, wrong-right-right, wrong-wrong-right and right-right-right.
    rounds = [
        ([1, 1, 0], [1, 1], [0, 0]),
        ([0, 0, 1], [1, 1], [1, 1]),
        ([0, 0, 0], [0, 0], [1, 1]),
        ([1, 1, 1], [1, 1], [1, 1]),
    ]
    scores = [score_of("long", verdicts, problem=f"p{number}") for number, verdicts in enumerate(rounds)]
    long = Grid.of(scores, EvaluationPlan(systems=(system,), reference="long"))
    found = rows(flow_figure, source_of(grid, title="a"), source_of(long, title="b"))
    assert columns(found, "run", "title") == [("a", "3 debate"), ("b", "4 long"), ("b", "4 long")]
    assert columns(found, *STEPS)[1:] == [(0.5, 0.0, 0.25, 0.25), (0.5, 0.25, 0.25, 0.0)]


def test_critics_by_right_generators(source_of, grid):
    none, one, both = rows(critics_figure, source_of(grid))
    shown = ("generators", "right", "debates", "share", "accuracy", "vote")
    # Nobody right: one failed, one corrected. One right: corrected. Both right: five times, once half of it lost.
    assert columns([none, one], *shown) == [(2, 0, 2, 0.25, 0.5, 0.5), (2, 1, 1, 0.125, 1.0, 1.0)]
    assert columns([both], *shown[2:5]) == [(5, 0.625, pytest.approx(0.9))]


def test_what_was_credited_and_what_grpo_would_have(source_of, write_training):
    source = source_of(critics={"advantage": "counterfactual"})
    assert drawn(advantages_figure, source) is None
    write_training(source.run, "critics", credits=[])
    assert drawn(advantages_figure, source) is None
    kept = [credit([2.0, 0.0], [0.5, -0.5]), credit([-1.0, 0.0], [0.0, 0.0])]
    write_training(source.run, "critics", credits=kept)
    used, other = rows(advantages_figure, source)
    # 2, 0, −1, 0 around 0.25: (3.0625 + 0.0625 + 1.5625 + 0.0625) / 4.
    counts = ", ".join({BINS // 2: "2", BINS - 1: "1", 7: "1"}.get(place, "0") for place in range(BINS))
    assert columns([used], "run", "title", "counts", "mean", "zero share") == [
        ("", "counterfactual", counts, 0.25, 0.5)
    ]
    assert used["deviation"] == pytest.approx(math.sqrt(1.1875))
    assert (other["title"], other["mean"], other["zero share"]) == ("GRPO's of the same rewards", 0.0, 0.5)
    # GRPO is not compared with itself; and nothing but zeros still makes bins.
    same = source_of(title="same", critics={"advantage": "grpo"})
    write_training(same.run, "critics", credits=[credit([0.0, 0.0], [1.0, -1.0])])
    [alone] = rows(advantages_figure, same)
    assert (alone["title"], alone["counts"].split(", ")[BINS // 2]) == ("grpo", "2")


def test_pairs_are_those_of_the_tables(source_of, grid, one_seed):
    found = rows(pairs_figure, source_of(grid))
    assert columns(found, "row", "column") == [
        *(("vote | of 4", "one agent"), ("debate", "one agent"), ("debate", "vote | of 4"))
    ]
    for one, pair in zip(against_reference(grid), found, strict=False):
        assert (pair["difference"], pair["p"]) == (pytest.approx(one.seeds.difference), pytest.approx(one.seeds.p))
    # One seed has no test; runs on the same problems make one matrix.
    assert columns(rows(pairs_figure, source_of(one_seed, title="b")), "difference", "p")[0] == (0.25, None)
    both = source_of(grid, title="a"), source_of(title="empty"), source_of(one_seed, title="b")
    [pair] = [one for one in rows(pairs_figure, *both) if (one["row"], one["column"]) == ("b: one agent", "a: debate")]
    assert pair["difference"] == 0.25 - 0.75
    assert {one["run"] for one in rows(tokens_figure, *both)} == {"a", "b"}


# --- Drawing: without a warning, which is an error here ---


def letters(figure):
    """Everything that is written in a drawn figure."""
    found = figure.findobj(lambda artist: hasattr(artist, "get_text") and artist.get_visible())
    return [artist.get_text() for artist in found if artist.get_text()]


@pytest.fixture
def written(everything, tmp_path):
    return write_figures([everything()], tmp_path / "figures")


def test_every_figure_is_written_in_three_forms_twice_the_same(written, everything, tmp_path):
    paths, drawings = written
    assert [path.name for path in paths] == [f"{name}.{form}" for name in TITLES for form in ("pdf", "png", "svg")]
    assert list(drawings) == list(TITLES)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "pairs.pdf").write_text("old")
    # Settings of the reader neither matter nor change.
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        again, _ = write_figures([everything()], tmp_path / "again")
        assert dict(matplotlib.rcParams) == before
    assert sorted((tmp_path / "again").iterdir()) == sorted(again)
    for first, second in zip(paths, again, strict=True):
        content = first.read_bytes()
        assert content.startswith({".pdf": b"%PDF-", ".png": b"\x89PNG\r\n", ".svg": b"<?xml"}[first.suffix])
        assert content == second.read_bytes()
        assert not {b"CreationDate", b"Matplotlib", b"/Type3"} & {content, *content.split()}
    with Image.open(paths[1]) as picture:
        assert picture.width == 7.0 * 200
        assert picture.info["dpi"] == pytest.approx((200, 200), abs=0.1)


def test_figures_of_a_page_share_no_ids_and_have_its_colours_tips_and_values(written):
    _, drawings = written
    ids = [name for one in drawings.values() for name in re.findall(r' id="([^"]*)"', one.svg)]
    assert len(ids) == len(set(ids))
    for one in drawings.values():
        referred = re.findall(r'(?:url\(|href=")#([^")]+)', one.svg)
        assert set(referred) <= set(re.findall(r' id="([^"]*)"', one.svg))
        assert "var(--" in one.svg
        assert "#0072b2" not in one.svg.lower()
        assert one.tables
    assert "<title>1 one: 37.5 ± 12.5 %; 300</title>" in drawings["tokens"].svg
    assert "<title>three minus one: +37.5, p 0.350</title>" in drawings["pairs"].svg
    [row, *_] = drawings["critics"].tables[0].rows
    assert [cell.text for cell in row] == ["3 three", "2", "0", "2", "0.25", "0.5", "0.5"]


def test_hostile_titles_stay_text(everything, tmp_path):
    sources = [everything(HOSTILE), everything(HOSTILE, title="$run <b>")]
    paths, drawings = write_figures(sources, tmp_path)
    assert len(paths) == 21
    for one in drawings.values():
        parsed = ElementTree.fromstring(one.svg.replace(" xlink:href=", " href="))
        assert not {"script", "foreignObject", "image", "a"} & {element.tag for element in parsed.iter()}
        assert not [name for element in parsed.iter() for name in element.attrib if name.startswith("on")]
    # A dollar is a dollar, and pages have letters that print has not.
    assert r"$\frac{1}{0$ &lt;script&gt;" in drawings["tokens"].svg
    assert "模型辩论" in drawings["flow"].svg


def test_names_of_many_systems_and_runs_are_apart(everything, scores, plan):
    def many(count):
        systems = [
            one.model_copy(update={"name": f"{one.name}{place}", "title": f"system {place}", "parameters": 5 * place})
            for place in range(count)
            for one in plan.systems
        ]
        copies = [replace(one, system=f"{one.system}{place}") for place in range(count) for one in scores]
        return Grid.of(copies, plan.model_copy(update={"systems": tuple(systems), "reference": "single0"}))

    sources = [everything(title=f"run {place}") for place in range(5)]
    for make in (tokens_figure, training_figure, flow_figure, critics_figure, advantages_figure):
        assert drawn(make, *sources).figure.axes
    assert drawn(pairs_figure, replace(sources[0], grid=many(6))).figure.axes
    figure = drawn(parameters_figure, replace(sources[0], grid=many(4))).figure
    with print_style():
        figure.draw_without_rendering()
    names = [text for text in figure.axes[0].texts if "system" in text.get_text()]
    boxes = [Text.get_window_extent(text) for text in names]  # without its line
    assert len(names) == 12
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])


def test_drawing_needs_no_pyplot_and_data_no_matplotlib():
    check = (
        "import sys; import mada.report.publishing; assert 'matplotlib' not in sys.modules; "
        "import mada.report.figures.writing; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_blocks_and_changes_of_a_flow_have_their_percentages(source_of, grid):
    found = letters(drawn(flow_figure, source_of(grid)).figure)
    # Before: 75 right and 25 wrong; then 12.5 are corrected; after: 87.5 right and 12.5 wrong.
    numbers = [text for text in found if text.replace(".", "").isdigit()]
    assert sorted(numbers) == ["12.5", "12.5", "25.0", "75.0", "87.5"]


def test_only_differences_beyond_chance_are_coloured_and_many_have_signs_alone():
    found = {1: Comparison(0.1, 0.05, None, None, 0.05), 2: Comparison(-0.1, 0.01, None, None, 0.049)}
    found[3] = Comparison(0.1, None, None, None, None)
    with print_style():
        figure = draw_pairs("abcd", {(0, column): one for column, one in found.items()})
        many = draw_pairs([str(place) for place in range(17)], {(0, column): one for column, one in found.items()})
    whites = [patch.get_facecolor()[:3] == (1.0, 1.0, 1.0) for patch in figure.axes[0].patches[:4]]
    assert whites == [False, True, False, True]
    assert {"+10.0", "−10.0\n*"} <= set(letters(figure))
    assert letters(many).count("−") == 1
    assert not {"+10.0", "−10.0\n*", "+"} & set(letters(many))


@pytest.mark.parametrize(
    ("parameters", "scale"), [((0, 100, 1000), "linear"), ((10, 10, 1000), "log"), ((0, 10, 1000), "symlog")]
)
def test_costs_far_apart_have_a_logarithmic_axis_with_a_place_for_nothing(source_of, grid, parameters, scale):
    known = dict(zip(("single", "vote", "debate"), parameters, strict=True))
    figure = drawn(parameters_figure, source_of(with_plan(grid, **known))).figure
    assert figure.axes[0].get_xscale() == scale


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (45.5, "45.5"), (5_000, "5,000"), (20_000, "20k"), (1_500_000, "1.5M"), (7e9, "7B")],
)
def test_counts_on_axes(count, text):
    assert axis_count(count) == text


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
