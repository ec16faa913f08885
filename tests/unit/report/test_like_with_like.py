"""A vote whose verdicts beat a debate's single answers and lose against its verdicts: nothing puts the vote ahead.

The last round of the debate is right by two to one on ten of twelve questions, the vote's three samples on nine; all
are wrong on the others. So verdicts are 83.3 against 75.0 %, single answers 55.6 against 50.0 %.
"""

from dataclasses import replace
from typing import Any

import pytest

from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.summary import summarize
from mada.pipeline.tracking import numbers_of
from mada.report.comparing import comparison_sections
from mada.report.figures.drawing import print_style
from mada.report.figures.systems import pairs_figure, parameters_figure, tokens_figure
from mada.report.paper import paper_tables
from mada.report.publishing import sections_of
from mada.report.sections.results import headline_sentence
from scores import score_of

VOTE = PlannedSystem(name="vote", title="vote", generators=("g",) * 3, matched_to="debate", parameters=0)
DEBATE = PlannedSystem(
    name="debate", title="debate", generators=("g",) * 3, critics=("c",) * 3, rounds=2, parameters=7, shown=True
)
THIRD = PlannedSystem(name="third", title="third", generators=("g",), parameters=0)
RIGHT = {"vote": 9, "debate": 10, "third": 1}
ACCURACIES = {"verdict", "mean", "accuracy", "average", "one", "two"}


@pytest.fixture
def staged():
    def score(system, benchmark, seed, problem):
        won = problem < RIGHT[system.name]
        rounds = [(won, won, False)[: len(system.generators)]] * system.rounds
        at = {"benchmark": benchmark, "seed": seed, "problem": str(problem)}
        return score_of(system.name, rounds, **at, tokens=100, prompts=10)

    systems = (VOTE, THIRD, DEBATE)
    given = [
        score(system, benchmark, seed, problem)
        for system in systems
        for benchmark in ("one", "two")
        for seed in range(3)
        for problem in range(12)
    ]
    return Grid.of(given, EvaluationPlan(systems=systems, reference="debate", benchmarks=("one", "two")))


def number(cell):
    """Return the first number of a cell: of 83.3 ± 0.4, of 83.33(4), of −8.3."""
    return float(cell.text.replace("−", "-").split(" ")[0].split("(")[0])


def test_no_table_puts_the_vote_ahead(staged, source_of):
    source = source_of(staged)
    sections = [*sections_of(source), *comparison_sections([source, replace(source, title="again")])]
    tables = [table for section in sections for table in section.tables]
    compared = set()
    for table in [*tables, *paper_tables(source)]:
        rows = {row[0].text.removeprefix("1 ").removeprefix("3 "): row for row in table.rows}
        if "vote" not in rows or table.name == "runs-accuracy":
            continue
        for place, column in enumerate(table.columns[1:], start=1):
            cell = rows["vote"][place]
            if column.heading == "difference":
                # Table 2 of the paper has the reference minus the system.
                assert (number(cell) > 0) == (table.name == "significance"), table.name
                compared.add(table.name)
            elif column.heading in ACCURACIES and column.group != "difference":
                assert number(cell) < number(rows["debate"][place]), table.name
                compared.add(table.name)
            elif column.heading == "wins":
                assert number(cell) < number(rows["vote"][place + 1])
    assert compared >= {"headline", "benchmarks", "over-seeds", "over-problems", "by-benchmark"}
    assert compared >= {"main-results", "significance"}
    [matrix] = [table for table in paper_tables(source) if table.name == "pairwise-differences"]
    assert (number(matrix.rows[0][3]), number(matrix.rows[2][1])) == (-5.56, 5.56)


def test_no_figure_puts_the_vote_ahead(staged, source_of):
    with print_style():
        makers: Any = (tokens_figure, parameters_figure, pairs_figure)
        tokens, parameters, pairs = (make([source_of(staged)]) for make in makers)
    for figure, expected in ((tokens, (9 / 12, 10 / 12)), (parameters, (18 / 36, 20 / 36))):
        points = {point["name"]: point["accuracy"] for point in figure.values["points"]}
        assert (points["vote"], points["debate"]) == pytest.approx(expected)
    assert {point["title"] for point in tokens.values["points"]} == {"1 vote", "2 third", "3 debate"}
    [pair] = [one for one in pairs.values["pairs"] if (one["row"], one["column"]) == ("debate", "vote")]
    assert pair["difference"] == pytest.approx(1 / 12)


def test_the_sentence_and_the_table_have_the_same_numbers(staged):
    summary = summarize(staged)
    sentence = headline_sentence(summary)
    assert sentence.startswith("debate: 83.33 ± 0.00 %")
    assert "“vote”, has −8.3 points" in sentence


def test_trackers_have_both_measures_by_name(staged):
    numbers = numbers_of(summarize(staged))
    assert (numbers["vote/verdict"], numbers["debate/verdict"]) == pytest.approx((9 / 12, 10 / 12))
    assert (numbers["vote/mean"], numbers["debate/mean"]) == pytest.approx((18 / 36, 20 / 36))
    assert (numbers["debate/tokens"], numbers["debate/prompt tokens"]) == (600, 60)


def test_a_system_has_one_number_everywhere(staged, source_of):
    source = source_of(staged)
    titles = {"1 vote", "2 third", "3 debate"}
    tables = {
        table.name: {row[0].text for row in table.rows} for section in sections_of(source) for table in section.tables
    }
    for name in ("headline", "benchmarks", "replies", "over-problems", "costs"):
        assert tables[name] == titles, name
    assert tables["over-seeds"] == {"1 vote", "2 third"}
    assert tables["votes"] == {"3 debate"}
    [matrix] = [table for table in paper_tables(source) if table.name == "pairwise-p"]
    assert [row[0].text for row in matrix.rows] == ["1 vote", "2 third", "3 debate"]
