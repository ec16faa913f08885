"""The section of comparisons, to the letter where numbers are known by hand."""

from dataclasses import replace

import pytest

from mada.evaluation.analysis import BenchmarkPower, PowerNote
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan
from mada.report.document import Cell, Figure, Table
from mada.report.forms.markdown import markdown
from mada.report.sections.results import comparisons_section, power_text

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


def test_stars_stand_apart_and_the_matrix_is_a_figure(grid):
    section = comparisons_section(grid)
    assert section is not None
    assert [block.name for block in section.blocks if isinstance(block, Figure | Table)] == [
        *("over-seeds", "over-problems", "by-benchmark", "pairs"),
    ]
    by_benchmark = section.blocks[3]
    assert isinstance(by_benchmark, Table)
    assert by_benchmark.rows[0][3] == Cell("+50.00 ± 0.00", "***")
    assert [column.group for column in by_benchmark.columns] == ["", *["arithmetic"] * 2, *["algebra"] * 2]


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
