"""The charts of report.html in a real browser: what they draw, what they say, and that titles stay text."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.resources import files

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from mada.report.figures.data import (
    AdvantageCounts,
    AdvantagesFigure,
    CriticsFigure,
    FigureData,
    Flow,
    FlowFigure,
    FlowStep,
    PairCell,
    PairsFigure,
    ParametersFigure,
    RightCount,
    RightCounts,
    SystemPoint,
    TokensFigure,
    TrainingCurve,
    TrainingFigure,
    TrainingPoint,
    ValidationPoint,
    VoteCurve,
    VotePoint,
)
from mada.report.page.page import SCRIPTS as PAGE_SCRIPTS

pytestmark = pytest.mark.browser

SCRIPTS = [name for name in PAGE_SCRIPTS if name.startswith("chart")]
COLOURS = (
    "--paper:#fff;--ink:#111;--muted:#555;--line:#ccc;--surface:#eee;--accent:#05a;--right:#174;--wrong:#a31;--green:#9c9;--red:#e99;"
    "--series-1:#07b;--series-2:#d50;--series-3:#0a7;--series-4:#c7a;--series-5:#a80;--series-6:#39c;--series-7:#64a"
)
HOSTILE = "<img src=x onerror=\"window.broken = 1\"></script><b>bold</b> & 'so' on"

Show = Callable[..., Page]


def point(title: str, x: float, accuracy: float, error: float | None = 0.003, **flags: bool) -> SystemPoint:
    marks = {"is_reference": False, "is_on_front": False} | flags
    return SystemPoint(run="", name=title, title=title, x=x, accuracy=accuracy, error=error, **marks)


PARAMETERS = ParametersFigure(
    (
        point("single agent", 0, 0.419, is_on_front=True),
        point("generators", 203_520, 0.697, 0.024, is_on_front=True),
        point("MADA debate", 407_040, 0.801, 0.0015, is_reference=True, is_on_front=True),
    )
)
VOTES = VoteCurve("", "votes of base", (VotePoint(1, 45.2, 0.546, 0.007), VotePoint(2, 90.4, 0.589, None)))
TOKENS = TokensFigure((point("single agent", 45.2, 0.535), point("MADA debate", 272.6, 0.801)), (VOTES,))
TRAINING = TrainingFigure(
    (
        TrainingCurve(
            run="",
            role="generators",
            agent="generator-1",
            rollouts=(TrainingPoint(1, 0.52, 0.48, 0.56), TrainingPoint(2, 0.61, 0.57, 0.65)),
            validation=(ValidationPoint(0, 0.521, False), ValidationPoint(2, 0.792, True)),
        ),
        TrainingCurve(
            run="",
            role="critics",
            agent="critic-1",
            rollouts=(TrainingPoint(1, 0.72, 0.68, 0.76), TrainingPoint(2, 0.81, 0.77, 1.04)),
            validation=(ValidationPoint(0, 0.729, False), ValidationPoint(2, 0.875, True)),
        ),
    )
)
FLOW = FlowFigure(
    (
        Flow("", "debate", (FlowStep(0.514, 0.042, 0.146, 0.298),)),
        Flow("", "three rounds", (FlowStep(0.6, 0.05, 0.076, 0.274), FlowStep(0.65, 0.026, 0.0, 0.324))),
    )
)
CRITICS = CriticsFigure(
    (
        RightCounts("", "untrained", 1, (RightCount(0, 9, 0.0625, 1 / 3, 0.222), RightCount(1, 135, 0.9375, 0.9, 1.0))),
        RightCounts("", "trained", 1, (RightCount(0, 0, 0.0, None, None), RightCount(1, 144, 1.0, 0.95, 0.99))),
    )
)
ADVANTAGES = AdvantagesFigure(
    edges=(-1.0, -1 / 3, 1 / 3, 1.0),
    series=(
        AdvantageCounts("", "counterfactual", (10, 20, 70), mean=0.4, deviation=0.52, zero_share=0.012),
        AdvantageCounts("", "GRPO", (30, 45, 25), mean=-0.0333, deviation=0.8, zero_share=0.3),
    ),
)


def pairs(count: int) -> PairsFigure:
    """Every system one point better than the one before; from three points on the difference is significant."""

    def cell(row: int, column: int) -> PairCell | None:
        if row == column:
            return None
        difference = (row - column) / 100
        significant = abs(row - column) >= 3
        return PairCell(difference, 0.012, 0.0002 if significant else 0.321, "***" if significant else "")

    cells = tuple(tuple(cell(row, column) for column in range(count)) for row in range(count))
    return PairsFigure(run="", systems=tuple(f"system {place}" for place in range(count)), cells=cells)


ALL = (PARAMETERS, TOKENS, TRAINING, FLOW, CRITICS, ADVANTAGES, pairs(5))
EMPTY = (
    ParametersFigure(()),
    TokensFigure((), ()),
    TrainingFigure(()),
    FlowFigure((Flow("", "one round only", ()),)),
    CriticsFigure(()),
    AdvantagesFigure((), ()),
    PairsFigure("", (), ()),
)


def html_of(figures: tuple[FigureData, ...]) -> str:
    assets = files("mada.report") / "page" / "assets"
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = (assets / "charts.css").read_text(encoding="utf-8")
    data = json.dumps([asdict(figure) for figure in figures]).replace("<", "\\u003c")
    places = "".join(f'<figure class="chart" data-chart="{figure.name}"></figure>' for figure in figures)
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "script-src 'unsafe-inline'; style-src 'unsafe-inline'\">"
        f"<style>:root{{{COLOURS}}} body{{margin:0}} {style}</style>{places}"
        f'<script type="application/json" id="data">{data}</script><script>"use strict";{script}\n'
        'const data = JSON.parse(document.getElementById("data").textContent);'
        'document.querySelectorAll("figure").forEach((figure, index) => Charts.draw(figure, data[index]));'
        "</script></html>"
    )


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Show charts in a window of a width; a test fails if the page had anything to complain about."""
    context = browser.new_context()
    complaints: list[str] = []

    def shown(*figures: FigureData, width: int = 900) -> Page:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.set_viewport_size({"width": width, "height": 800})
        page.set_content(html_of(figures))
        return page

    yield shown
    context.close()
    assert complaints == []


def drawing(page: Page, name: str) -> Locator:
    return page.locator(f'figure[data-chart="{name}"] svg[role="img"]')


def tips(page: Page, name: str, count: int) -> list[str]:
    """What the tooltip says from mark to mark, by keys."""
    drawing(page, name).focus()
    said: list[str] = []
    for key in ("Home", *["ArrowRight"] * (count - 1)):
        page.keyboard.press(key)
        said.append(page.locator(f'figure[data-chart="{name}"] .chart-tip').inner_text().replace("\xa0", " "))
    return said


def rows(page: Page, name: str) -> list[list[str]]:
    figure = page.locator(f'figure[data-chart="{name}"]')
    figure.get_by_role("button", name="Show as table").click()
    return [row.locator("th, td").all_inner_texts() for row in figure.locator("tbody tr").all()]


def test_every_chart_draws_and_sums_itself_up(show: Show) -> None:
    page = show(*ALL)
    labels = {figure.name: drawing(page, figure.name).get_attribute("aria-label") for figure in ALL}
    assert labels == {
        "parameters": "Accuracy of 3 systems against trained parameters: from 41.9 ± 0.3 % (single agent) "
        "to 80.10 ± 0.15 % (MADA debate); the reference, MADA debate, has 80.10 ± 0.15 %.",
        "tokens": "Accuracy of 2 systems against generated tokens per question, with 1 curve of plain votes: "
        "from 53.5 ± 0.3 % (single agent) to 80.1 ± 0.3 % (MADA debate).",
        "training": "Training of 1 generator and 1 critic: accuracy step by step; "
        "the adapters that were kept reach 79.2 % to 87.5 % on the validation set.",
        "flow": "How many votes are right from the first round to the last, 2 debates: "
        "debate from 55.6 % to 66.0 %; three rounds from 65.0 % to 65.0 %.",
        "critics": "Accuracy of the last round by how many generators were right: untrained from 33.3 % with 0 right "
        "to 90.0 % with 1 right; trained from 95.0 % with 1 right to 95.0 % with 1 right.",
        "advantages": "Advantages of critics' completions: counterfactual has mean +0.40, standard deviation 0.52 and "
        "1.2 % at exactly 0; GRPO has mean −0.03, standard deviation 0.80 and 30.0 % at exactly 0.",
        "pairs": "Differences in accuracy between 5 systems, row minus column: 3 of 10 pairs differ significantly.",
    }
    for figure in ALL:
        assert drawing(page, figure.name).locator("path, rect").count() >= 5
        expect(page.locator(f'figure[data-chart="{figure.name}"] figcaption')).to_have_text(figure.title)


def test_points_say_their_exact_numbers_key_by_key(show: Show) -> None:
    page = show(PARAMETERS, TOKENS)
    assert tips(page, "parameters", 4) == [
        "single agent\naccuracy 41.9 ± 0.3 %\n0 trained parameters\non the Pareto front",
        "generators\naccuracy 69.7 ± 2.4 %\n203,520 trained parameters\non the Pareto front",
        *["MADA debate\naccuracy 80.10 ± 0.15 %\n407,040 trained parameters\nthe reference\non the Pareto front"] * 2,
    ]
    assert tips(page, "tokens", 3) == [
        "votes of base, k = 1\naccuracy 54.6 ± 0.7 %\n45 tokens per question",
        "votes of base, k = 2\naccuracy 58.9 %\n90 tokens per question\none seed: no standard error",
        "single agent\naccuracy 53.5 ± 0.3 %\n45 tokens per question",
    ]
    page.keyboard.press("Escape")
    expect(page.locator('figure[data-chart="tokens"] .chart-tip')).to_be_hidden()


def test_the_other_charts_say_their_exact_numbers(show: Show) -> None:
    page = show(TRAINING, FLOW, CRITICS, ADVANTAGES, pairs(5))
    assert tips(page, "training", 4) == [
        "generator-1\nstep 1: rollouts 52.0 %\nband 48.0 % to 56.0 %",
        "generator-1\nstep 2: rollouts 61.0 %\nband 57.0 % to 65.0 %",
        "generator-1\nstep 0: validation 52.1 %",
        "generator-1\nstep 2: validation 79.2 %\nthe adapter that was kept",
    ]
    assert tips(page, "flow", 7)[2::4] == [
        "debate\nround 1 to round 2\n14.6 % of all questions: wrong before, right after",
        "three rounds\nround 1 to round 2\n7.6 % of all questions: wrong before, right after",
    ]
    # 6.25 is written as Python's tables write it, half to even.
    assert tips(page, "critics", 2) == [
        "untrained\n0 of 1 generator right: 9 debates, 6.2 % of questions\n"
        "accuracy of the last round 33.3 %\nvote of the last round 22.2 %",
        "trained\n0 of 1 generator right: 0 debates, 0.0 % of questions\nno accuracy without debates",
    ]
    assert tips(page, "advantages", 4)[1:] == [
        "GRPO\n−0.33 up to +0.33: 45 completions\n45.0 % of 100",
        "GRPO\n+0.33 up to +1.00: 25 completions\n25.0 % of 100",
        "GRPO\nmean −0.033, standard deviation 0.800\n30.0 % are exactly 0\n100 completions",
    ]
    assert tips(page, "pairs", 3)[1:] == [
        "1 system 0\nminus 3 system 2\n−2.0 ± 1.2 points\np = 0.321\nnot significant",
        "1 system 0\nminus 4 system 3\n−3.0 ± 1.2 points ***\np < 0.001",
    ]


def test_tables_hold_the_same_data(show: Show) -> None:
    page = show(*ALL)
    assert rows(page, "parameters")[2] == [
        "MADA debate",
        "407,040",
        "80.10 ± 0.15",
        "the reference, on the Pareto front",
    ]
    assert rows(page, "tokens")[1:] == [
        ["MADA debate", "273", "80.1 ± 0.3", "–"],
        ["votes of base", "1", "45", "54.6 ± 0.7"],
        ["votes of base", "2", "90", "58.9"],
    ]
    assert rows(page, "training")[:3] == [
        ["generator-1", "0", "–", "–", "52.1", "–"],
        ["generator-1", "1", "52.0", "48.0 to 56.0", "–", "–"],
        ["generator-1", "2", "61.0", "57.0 to 65.0", "79.2", "kept"],
    ]
    assert rows(page, "flow")[0] == ["debate", "1 → 2", "51.4", "4.2", "14.6", "29.8"]
    assert rows(page, "critics")[:3:2] == [
        ["untrained", "0 of 1", "9", "6.2", "33.3", "22.2"],
        ["trained", "0 of 1", "0", "0.0", "–", "–"],
    ]
    assert rows(page, "advantages") == [
        ["counterfactual", "100", "+0.400", "0.520", "1.2"],
        ["GRPO", "100", "−0.033", "0.800", "30.0"],
        ["−1.00 to −0.33", "10", "30"],
        ["−0.33 to +0.33", "20", "45"],
        ["+0.33 to +1.00", "70", "25"],
    ]
    first = rows(page, "pairs")
    assert first[0] == ["1 system 0", "–", "−1.0 ± 1.2", "−2.0 ± 1.2", "−3.0 ± 1.2 ***", "−4.0 ± 1.2 ***"]
    assert first[5] == ["1 system 0", "–", "0.321", "0.321", "<0.001", "<0.001"]


def test_a_table_can_be_hidden_again(show: Show) -> None:
    page = show(PARAMETERS)
    button = page.locator(".chart-table-button")
    region = page.get_by_role("region", name="Table: Accuracy against trained parameters")
    expect(region).to_be_hidden()
    button.click()
    expect(region).to_be_visible()
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(region).to_be_hidden()
    expect(button).to_have_text("Show as table")


def test_the_legend_hides_a_series_and_brings_it_back(show: Show) -> None:
    page = show(PARAMETERS)
    key = page.get_by_role("button", name="generators")
    shapes = drawing(page, "parameters").locator(".chart-point")
    assert shapes.count() == 3
    key.click()
    expect(key).to_have_attribute("aria-pressed", "false")
    assert shapes.count() == 2
    assert [tip.split("\n")[0] for tip in tips(page, "parameters", 2)] == ["single agent", "MADA debate"]
    key.click()
    expect(key).to_have_attribute("aria-pressed", "true")
    assert shapes.count() == 3


def test_training_switches_between_rollouts_and_validation(show: Show) -> None:
    page = show(TRAINING)
    svg = drawing(page, "training")
    bands, shapes, kept = svg.locator(".chart-band"), svg.locator(".chart-point"), svg.locator(".chart-kept")
    assert (bands.count(), shapes.count(), kept.count()) == (2, 4, 2)
    page.get_by_role("button", name="rollouts").click()
    assert (bands.count(), shapes.count(), kept.count()) == (2, 0, 0)
    page.get_by_role("button", name="validation").click()
    assert (bands.count(), shapes.count(), kept.count()) == (0, 4, 2)
    expect(page.get_by_role("button", name="both")).to_have_attribute("aria-pressed", "false")


def test_several_runs_are_told_apart_by_dashes_and_can_be_hidden(show: Show) -> None:
    twice = tuple(replace(curve, run=run) for run in ("first", "second") for curve in TRAINING.curves)
    page = show(TrainingFigure(twice))
    lines = drawing(page, "training").locator(".chart-line")
    assert [line.evaluate("e => getComputedStyle(e).strokeDasharray") for line in lines.all()] == [
        *("none", "6px, 4px"),
        *("none", "6px, 4px"),
    ]
    page.get_by_role("button", name="second").click()
    assert lines.count() == 2
    assert tips(page, "training", 1)[0].startswith("first: generator-1\n")


def test_the_pointer_finds_marks(show: Show) -> None:
    page = show(PARAMETERS, FLOW)
    shape = drawing(page, "parameters").locator(".chart-point").nth(1)
    shape.hover()
    tip = page.locator('figure[data-chart="parameters"] .chart-tip')
    expect(tip).to_contain_text("203,520 trained parameters")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    drawing(page, "flow").locator(".chart-flow").nth(2).hover()
    expect(page.locator('figure[data-chart="flow"] .chart-tip')).to_contain_text("wrong before, right after")


def test_marks_in_one_place_are_told_together(show: Show) -> None:
    page = show(ParametersFigure((point("one", 10, 0.5), point("its twin", 10, 0.5), point("far", 20, 0.9))))
    drawing(page, "parameters").locator(".chart-point").first.hover(force=True)
    assert page.locator(".chart-tip strong").all_inner_texts() == ["one", "its twin"]


def test_arrows_walk_through_the_matrix_and_mark_row_and_column(show: Show) -> None:
    page = show(pairs(5))
    tips(page, "pairs", 1)
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    lines = page.locator(".chart-tip").inner_text().split("\n")
    assert lines[:2] == ["3 system 2", "minus 2 system 1"]
    assert drawing(page, "pairs").locator("text.is-active").all_text_contents() == ["2", "3  system 2"]
    page.keyboard.press("Escape")
    assert drawing(page, "pairs").locator("text.is-active").count() == 0


def test_only_significant_pairs_have_a_colour(show: Show) -> None:
    page = show(pairs(5))
    svg = drawing(page, "pairs")
    assert svg.locator(".chart-cell.chart-better").count() == 3
    assert svg.locator(".chart-cell.chart-worse").count() == 3
    assert svg.locator(".chart-cell.chart-chance").count() == 14
    colours = svg.locator(".chart-cell rect").evaluate_all("all => all.map(e => getComputedStyle(e).fill)")
    assert colours[:4] == ["rgb(238, 238, 238)"] * 2 + ["rgb(238, 153, 153)"] * 2


def test_a_matrix_of_forty_scrolls_by_itself_and_follows_the_keys(show: Show) -> None:
    page = show(pairs(40), width=340)
    scroll = page.locator(".chart-scroll")
    assert page.evaluate("document.documentElement.scrollWidth") == 340
    assert scroll.evaluate("e => e.scrollWidth") > 40 * 24
    assert drawing(page, "pairs").locator(".chart-cell").first.text_content() == ""
    drawing(page, "pairs").focus()
    page.keyboard.press("Home")
    page.keyboard.press("End")
    assert page.locator(".chart-tip strong").inner_text() == "40 system 39"
    assert scroll.evaluate("e => e.scrollLeft + e.clientWidth >= e.scrollWidth - 30")
    # The names come along, and the keys lead back.
    page.wait_for_function(
        "document.querySelector('.chart-gutter').getBoundingClientRect().left === "
        "document.querySelector('.chart-scroll').getBoundingClientRect().left"
    )
    page.keyboard.press("Home")
    assert scroll.evaluate("e => e.scrollLeft") <= 24


def test_hostile_titles_stay_text(show: Show) -> None:
    page = show(
        replace(PARAMETERS, title=HOSTILE, points=(point(HOSTILE, 5, 0.5), point("other", 9, 0.7))),
        replace(TOKENS, curves=(replace(VOTES, title=HOSTILE, run=HOSTILE),)),
        TrainingFigure(tuple(replace(curve, agent=HOSTILE, run=HOSTILE) for curve in TRAINING.curves)),
        FlowFigure(tuple(replace(flow, title=HOSTILE) for flow in FLOW.flows)),
        CriticsFigure(tuple(replace(system, title=HOSTILE) for system in CRITICS.systems)),
        replace(ADVANTAGES, series=tuple(replace(series, title=HOSTILE) for series in ADVANTAGES.series)),
        replace(pairs(2), systems=(HOSTILE, HOSTILE)),
    )
    for name in (figure.name for figure in ALL):
        assert any(HOSTILE in tip for tip in tips(page, name, 3)), name
        assert any(HOSTILE in cell for row in rows(page, name) for cell in row), name
    assert page.locator("figcaption").first.inner_text() == HOSTILE
    assert page.locator("img, b, foreignObject").count() == 0
    assert page.evaluate("window.broken") is None


def test_single_points_and_one_seed_are_drawn(show: Show) -> None:
    page = show(
        ParametersFigure((point("alone", 0, 1.0, None),)),
        TokensFigure((), (replace(VOTES, points=VOTES.points[:1]),)),
        TrainingFigure((replace(TRAINING.curves[0], rollouts=TRAINING.curves[0].rollouts[:1], validation=()),)),
        CriticsFigure((RightCounts("", "none yet", 0, (RightCount(0, 0, 0.0, None, None),)),)),
        AdvantagesFigure(
            (-1.0, 1.0), (AdvantageCounts("", "all zero", (0,), mean=0.0, deviation=0.0, zero_share=1.0),)
        ),
        PairsFigure("", ("alone",), ((None,),)),
        replace(pairs(2), cells=((None, PairCell(0.01, None, None, "")), (PairCell(-0.01, None, None, ""), None))),
    )
    assert tips(page, "parameters", 1) == ["alone\naccuracy 100.0 %\n0 trained parameters\none seed: no standard error"]
    assert drawing(page, "parameters").locator(".chart-error").count() == 0
    assert drawing(page, "training").locator(".chart-dot").count() == 1
    pair = drawing(page, "pairs").nth(1)
    pair.focus()
    page.keyboard.press("Home")
    assert page.locator(".chart-tip:visible").inner_text() == "1 system 0\nminus 2 system 1\n+1.0 points\nnot tested"
    assert not any("NaN" in (svg.evaluate("e => e.outerHTML")) for svg in page.locator("svg[role=img]").all())


def test_narrow_bins_have_digits_enough(show: Show) -> None:
    page = show(replace(ADVANTAGES, edges=(-0.003, -0.001, 0.001, 0.003)))
    assert tips(page, "advantages", 1)[0].startswith("GRPO\n−0.0030 up to −0.0010: 30 completions\n")


def test_empty_figures_say_that_there_is_nothing(show: Show) -> None:
    page = show(*EMPTY)
    assert page.locator(".chart-empty").all_inner_texts() == ["There is nothing to show here."] * len(EMPTY)
    assert page.locator("svg").count() == 0


@pytest.mark.parametrize("width", [340, 900])
def test_nothing_runs_out_of_the_window(show: Show, width: int) -> None:
    long = "a system with a title that is far too long to stand beside its point on a telephone"
    page = show(*ALL, replace(PARAMETERS, points=(*PARAMETERS.points, point(long, 3e5, 0.6))), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    outside = page.evaluate(
        """width => [...document.querySelectorAll("figure:not([data-chart=pairs]) svg text")].filter(text => {
          const box = text.getBoundingClientRect();
          return box.left < -1 || box.right > width + 1;
        }).map(text => text.textContent)""",
        width,
    )
    assert outside == []


def test_labels_of_points_do_not_overlap(show: Show) -> None:
    crowd = tuple(point(f"system number {place}", 10 + place % 2, 0.5 + 0.001 * place) for place in range(40))
    page = show(ParametersFigure(crowd))
    boxes = (
        drawing(page, "parameters")
        .locator("text.chart-text")
        .evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(b => [b.left, b.top + 2, b.right, b.bottom - 2])"
        )
    )
    assert 10 <= len(boxes) < 40
    for place, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert left >= other[2] or other[0] >= right or top >= other[3] or other[1] >= bottom


def test_a_resized_window_is_drawn_anew_with_its_choices(show: Show) -> None:
    page = show(PARAMETERS)
    page.get_by_role("button", name="generators").click()
    svg = drawing(page, "parameters")
    expect(svg).to_have_attribute("viewBox", "0 0 900 420")
    page.set_viewport_size({"width": 400, "height": 800})
    expect(svg).to_have_attribute("viewBox", "0 0 400 340")
    assert svg.locator(".chart-point").count() == 2


def test_a_chart_drawn_again_takes_the_place_of_the_first(show: Show) -> None:
    page = show(PARAMETERS)
    page.evaluate("Charts.draw(document.querySelector('figure'), data[0])")
    assert page.locator("svg[role=img]").count() == 1
    assert page.locator(".chart-table-button").count() == 1


def test_an_unknown_chart_is_an_error(show: Show) -> None:
    page = show(PARAMETERS)
    said = page.evaluate(
        "(() => { try { Charts.draw(document.body, {name: 'pie'}); } catch (e) { return e.message; } })()"
    )
    assert said == "there is no chart called pie"
