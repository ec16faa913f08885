"""Results, comparisons and samples of an evaluation, to the letter where numbers are known by hand."""

from dataclasses import replace

import pytest

from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan
from mada.evaluation.statistics import Comparison, Estimate
from mada.evaluation.summary import BenchmarkPower, PowerNote, summarize
from mada.report.document import Cell, Figure
from mada.report.forms.markdown import markdown, table_markdown
from mada.report.numbers import accuracy, difference, uncertain_difference
from mada.report.sections.results import (
    comparisons_section,
    headline_tables,
    power_text,
    results_section,
)

# Verdicts of the debate by hand: seed averages 0.5 and 1, so 75 with SE 25; single answers 0.625 and 1, so 81.25 with
# SE 18.75; of eight questions two are corrected and one is damaged. Verdicts against those of one agent (0.25 and 0.5):
# 0.375 with SE √(0.25² + 0.125²) = 0.28.
HEADLINE = r"""
| system | verdict | difference | p | mean | calls | tokens, generated | tokens, prompt | critics, improve """
HEADLINE += r"""| critics, damage |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 1 one agent | 37.5 ± 12.5 | reference | – | 37.5 ± 12.5 | 1 | 300 | 50 | – | – |
| 2 vote \| of 4 | 50.00 ± 0.00 | +12.5 | 0.500 | 62.50 ± 0.00 | 4 | 1,200 | 200 | – | – |
| 3 debate | 75.0 ± 25.0 | +37.5 | 0.350 | 81.2 ± 18.8 | 4 | 1,200 | 200 | 25.0 | 12.5 |
"""
BENCHMARKS = r"""
| system | arithmetic | algebra |
| --- | ---: | ---: |
| 1 one agent | 75.0 ± 25.0 | 0.00 ± 0.00 |
| 2 vote \| of 4 | 50.00 ± 0.00 | 50.00 ± 0.00 |
| 3 debate | 100.00 ± 0.00 | 50.0 ± 50.0 |
"""


def headline(scores, plan):
    return headline_tables(summarize(Grid.of(scores, plan)))[0]


def test_the_section(grid, tables_of):
    section = results_section(grid)
    assert [block.name for block in section.blocks if isinstance(block, Figure)] == ["tokens"]
    tables = tables_of(section)
    assert list(tables) == ["headline", "benchmarks", "replies"]
    assert tables["headline"] == HEADLINE.strip()
    assert tables["benchmarks"] == BENCHMARKS.strip()
    notes = " ".join(section.tables[0].notes)
    parts = ("2 seeds; ± is the standard error", "arithmetic (2), algebra (2)", "equal weight", "above “one agent”")
    assert all(part in notes for part in parts)


@pytest.mark.parametrize(("p", "stars"), [(None, ""), (0.05, ""), (0.0499, "*"), (0.0099, "**"), (0.0009, "***")])
def test_stars_stand_apart_from_the_difference(p, stars):
    comparison = Comparison(-0.0521, 0.005, -0.1, 0.1, p)
    assert difference(comparison) == Cell("−5.2", stars)
    assert uncertain_difference(comparison) == Cell("−5.2 ± 0.5", stars)


def test_one_seed_has_no_spread_and_no_test(scores, plan):
    assert [accuracy(Estimate(0.801, error, 6)) for error in (0.024, None)] == ["80.1 ± 2.4", "80.1"]
    assert uncertain_difference(Comparison(0.02, None, None, None, None)) == Cell("+2.0")
    text = table_markdown(headline([one for one in scores if one.seed == 0], plan))
    assert "| 3 debate | 50.0 | +25.0 | – | 62.5 | 4 | 1,200 | 200 | 25.0 | 25.0 |" in text
    assert "mean over 1 seed; one seed has no standard error" in text


def test_replies_that_were_cut_off_unfit_or_failed(scores, plan, tables_of):
    half = [replace(one, truncated=1, tie=one.seed == 0) for one in scores]
    lines = tables_of(results_section(Grid.of(half, plan)))["replies"].splitlines()
    assert lines[0] == "| system | replies cut off | replies without an answer | tied votes |"
    assert lines[-1] == "| 3 debate | 25.0 | 0.0 | 50.0 |"
    rare = [replace(one, unfit=2, failed=1) if one.system == "debate" else one for one in half]
    lines = tables_of(results_section(Grid.of(rare, plan)))["replies"].splitlines()
    assert lines[0].endswith(
        "| replies never given: no room for the question | replies that the server failed to give |"
    )
    assert lines[-2:] == [
        "| 2 vote \\| of 4 | 25.0 | 0.0 | 50.0 | 0.0 | 0.0 |",
        "| 3 debate | 25.0 | 0.0 | 50.0 | 50.0 | 25.0 |",
    ]
    assert "counted as wrong: debate 25.00 %" in headline(rare, plan).notes[-1]


def test_a_significant_difference_has_stars(scores, plan):
    worse = [replace(one, verdict_correct=False) if one.system == "single" else one for one in scores]
    table = headline(worse, plan)
    assert "| 2 vote \\| of 4 | 50.00 ± 0.00 | +50.0 \\*\\*\\* | \\<0.001 |" in table_markdown(table)
    assert table.rows[1][2] == Cell("+50.0", "***")


def test_a_lone_system_differs_from_nothing(scores, plan):
    alone = EvaluationPlan(systems=(plan.systems[2],), reference="debate")
    text = table_markdown(headline([one for one in scores if one.system == "debate"], alone))
    assert "| system | verdict | mean | calls | tokens, generated |" in text
    assert "Welch" not in text


def test_matched_systems_are_explained_with_their_budget(scores, plan):
    single, vote, debate = plan.systems
    rival = vote.model_copy(update={"generators": ("g",), "matched_to": "debate"})
    # A budget gives some questions more samples than others.
    scores = [
        replace(one, answers=(one.answers[0][:3],)) if one.system == "vote" and one.problem == "p" else one
        for one in scores
    ]
    text = table_markdown(headline(scores, EvaluationPlan(systems=(single, rival, debate), reference="debate")))
    assert text.endswith("\n\n“vote \\| of 4”: as many samples as the generated tokens of “debate” allow.")
    assert "| 62.50 ± 0.00 | 3.5 |" in text
    by_cost = rival.model_copy(update={"match": "cost"})
    costly = EvaluationPlan(systems=(single, by_cost, debate), reference="debate", prompt_price=0.0625)
    *_, budget, price = headline(scores, costly).notes
    assert budget == "“vote | of 4”: as many samples as the cost of “debate” allows."
    assert price == "cost: generated tokens, and prompt tokens at 0.0625 of a generated one."
    # The other system need not be shown.
    hidden = single.model_copy(update={"shown": False})
    rival = rival.model_copy(update={"matched_to": "single"})
    text = table_markdown(headline(scores, EvaluationPlan(systems=(hidden, rival, debate), reference="debate")))
    assert text.endswith("as many samples as the generated tokens of “one agent” allow.")


def test_a_single_benchmark_has_no_table_of_its_own(scores, plan):
    plan = plan.model_copy(update={"benchmarks": ()})
    [table] = headline_tables(summarize(Grid.of([one for one in scores if one.benchmark == "algebra"], plan)))
    assert "Problems: algebra (2)." in table.notes[0]


# The vote has no spread, so its t = 1 has one degree of freedom and p = ½; Holm doubles the smaller p, 0.35.
OVER_SEEDS = r"""
| system | difference | 95 % interval | p | Holm | BH | mean against mean, difference | mean against mean, p |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 2 vote \| of 4 | +12.5 ± 12.5 | −146.3 to +171.3 | 0.500 | 0.700 | 0.500 | +25.0 ± 12.5 | 0.295 |
| 3 debate | +37.5 ± 28.0 | −135.5 to +210.5 | 0.350 | 0.700 | 0.500 | +43.8 ± 22.5 | 0.210 |
"""
# Against one agent, the debate's differences are 0, ½ | ½, ½: of eight assignments of signs two are as far from 0.
OVER_PROBLEMS = r"""
| system | right verdicts, mean | right verdicts, 95 % interval | difference, mean | difference, 95 % interval """
OVER_PROBLEMS += r"""| difference, p | problem and seed, wins | problem and seed, losses | problem and seed, p """
OVER_PROBLEMS += r"""| McNemar, wins | McNemar, losses | McNemar, p |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 1 one agent | 37.5 | 25.0 to 50.0 | reference | – | – | – | – | – | – | – | – |
| 2 vote \| of 4 | 50.0 | 0.0 to 100.0 | +12.5 | −25.0 to +50.0 | 1.000 | 2 | 1 | 0.712 | 1 | 0 | 1.000 |
| 3 debate | 75.0 | 75.0 to 75.0 | +37.5 | +25.0 to +50.0 | 0.250 | 3 | 0 | 0.205 | 1 | 0 | 1.000 |
"""
# On algebra neither of the first two has any spread, so that any difference is certain and its error is 0.
BY_BENCHMARK = r"""
| system | arithmetic, difference | arithmetic, p | algebra, difference | algebra, p |
| --- | ---: | ---: | ---: | ---: |
| 2 vote \| of 4 | −25.0 ± 25.0 | 0.500 | +50.00 ± 0.00 \*\*\* | \<0.001 |
| 3 debate | +25.0 ± 25.0 | 0.500 | +50.0 ± 50.0 | 0.500 |
"""


def text_of(grid):
    section = comparisons_section(grid)
    assert section is not None
    return markdown(section)


def test_tables(tables_of, grid):
    tables = {
        "over-seeds": OVER_SEEDS,
        "over-problems": OVER_PROBLEMS,
        "by-benchmark": BY_BENCHMARK,
    }
    assert tables_of(comparisons_section(grid)) == {name: text.strip() for name, text in tables.items()}


def test_the_section_explains_them(grid):
    text = text_of(grid)
    assert text.startswith("## Comparisons\n\nVerdict against verdict, in points, system minus “one agent”")
    assert "for the 2 tests of this table" in text
    # Over seeds and by benchmark; over problems no error is given.
    assert text.count("± is the standard error over seeds.") == 2
    assert text.splitlines()[-1].startswith("Power: a system's average varies by 22.8 points from seed to seed")


def test_a_lone_system_is_compared_with_nothing(scores, plan):
    alone = EvaluationPlan(systems=plan.systems[:1], reference="single")
    assert comparisons_section(Grid.of([one for one in scores if one.system == "single"], alone)) is None


def test_two_systems_on_one_benchmark_have_no_table_by_benchmark(scores, plan):
    two = EvaluationPlan(systems=plan.systems[:2], reference="single")
    text = text_of(Grid.of([one for one in scores if one.system != "debate" and one.benchmark == "algebra"], two))
    assert "for the 1 test of this table" in text
    assert "Benchmark by benchmark" not in text


def test_one_seed_has_differences_and_tests_over_problems_alone(one_seed):
    text = text_of(one_seed)
    assert "| 3 debate | +25.0 | – | – | – | – | +37.5 | – |" in text
    assert "| 3 debate | +50.0 | – | +0.0 | – |" in text
    assert "| 3 debate | 50.0 | 50.0 to 50.0 | +25.0 | +0.0 to +50.0 | 1.000 | 1 | 0 | 0.500 | 1 | 0 | 1.000 |" in text
    assert "±" not in text
    assert text.splitlines()[-1].startswith("One seed allows no test over seeds")


def test_benchmarks_of_one_problem_have_no_intervals(scores, plan):
    text = text_of(Grid.of([one for one in scores if one.problem == "p"], plan))
    assert "| 1 one agent | 50.0 | – | reference | – | – |" in text
    assert "| 3 debate | 75.0 | – | +25.0 | – |" in text


def test_the_benchmarks_in_the_sentence_on_power_are_only_names(scores, plan):
    two = EvaluationPlan(systems=plan.systems[:2], reference="single")
    given = [
        replace(one, benchmark="<b>", problem=f"{number}", seed=seed)
        for number in range(20)
        for seed in range(5)
        for one in (scores[(number + seed) % 2], scores[8])
    ]
    assert text_of(Grid.of(given, two)).endswith(r" on \<b\> (20 problems).")


@pytest.mark.parametrize(
    ("note", "parts"),
    [
        (PowerNote(1, None, None, {}), ["One seed allows no test over seeds"]),
        (
            PowerNote(10, 0.01, 0.0133, {"aime": BenchmarkPower(30, 0.25, 0.149), "all": BenchmarkPower(9, 1.0, None)}),
            [
                "by 1.0 points from seed to seed (standard deviation), so 10 seeds find a true difference of 1.3",
                "10 seeds find this many points: 14.9 on aime (30 problems).",
            ],
        ),
        (
            PowerNote(2, 0.2, 1.1, {"aime": BenchmarkPower(1, 0.25, 1.7)}),
            ["so 2 seeds are too few to find anything reliably. Smaller", "two systems are alike."],
        ),
    ],
)
def test_power_in_words(note, parts):
    text = power_text(note)
    assert all(part in text for part in parts)
    assert text.count("problems).") == (note.seeds == 10)
    assert "170" not in text
    assert text.endswith(".")
