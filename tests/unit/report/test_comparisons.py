"""The section of comparisons, to the letter where numbers are known by hand."""

from dataclasses import replace

import pytest

from mada.evaluation.analysis import BenchmarkPower, PowerNote, against_reference
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan
from mada.report.comparisons import (
    WIDEST_MATRIX,
    comparisons_section,
    over_problems_markdown,
    over_seeds_markdown,
    per_benchmark_markdown,
    power_text,
)

# The vote has no spread, so its t = 1 has one degree of freedom and p = ½; both corrections double the smaller p.
OVER_SEEDS = r"""
| system | difference | SE | 95 % interval | p | Holm | BH | verdict against verdict |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| vote \| of 4 | +12.5 | 12.5 | −146.3 to +171.3 | 0.500 | 0.500 | 0.500 | +12.5 (0.500) |
| debate | +43.8 | 22.5 | −68.3 to +155.8 | 0.210 | 0.420 | 0.420 | +37.5 (0.350) |
"""
# Against one agent, the debate's differences are 0, ½ | ¾, ½: of eight assignments of signs two are as far from 0.
OVER_PROBLEMS = r"""
| system | accuracy | difference | p | right by it alone | by the reference alone | McNemar p |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| one agent | 37.5 (25.0 to 50.0) | reference | – | – | – | – |
| vote \| of 4 | 50.0 (0.0 to 100.0) | +12.5 (−25.0 to +50.0) | 1.000 | 1 | 0 | 1.000 |
| debate | 81.2 (75.0 to 87.5) | +43.8 (+25.0 to +62.5) | 0.250 | 2 | 0 | 0.500 |
"""
PER_BENCHMARK = r"""
| system | arithmetic | algebra |
| --- | ---: | ---: |
| vote \| of 4 | −25.0 (0.500) | +50.0 \*\*\* (\<0.001) |
| debate | +25.0 (0.500) | +62.5 (0.344) |
"""
MATRICES = r"""
| row minus column | 1 | 2 | 3 |
| --- | ---: | ---: | ---: |
| 1 one agent | – | −12.5 | −43.8 |
| 2 vote \| of 4 | +12.5 | – | −31.2 |
| 3 debate | +43.8 | +31.2 | – |

| row minus column | 1 | 2 | 3 |
| --- | ---: | ---: | ---: |
| 1 one agent | – | 0.500 | 0.210 |
| 2 vote \| of 4 | 0.500 | – | 0.344 |
| 3 debate | 0.210 | 0.344 | – |
"""


def test_tables(grid):
    compared = against_reference(grid)
    assert over_seeds_markdown(compared) == OVER_SEEDS.strip()
    assert over_problems_markdown(grid, compared) == OVER_PROBLEMS.strip()
    assert per_benchmark_markdown(compared) == PER_BENCHMARK.strip()


def test_the_section_has_all_of_them(grid):
    text = comparisons_section(grid)
    assert text.startswith("## Comparisons\n\nDifferences are in points, system minus “one agent”")
    for part in (OVER_SEEDS, OVER_PROBLEMS, PER_BENCHMARK, MATRICES):
        assert f"\n\n{part.strip()}\n\n" in text
    assert "for the 2 tests of this table" in text
    assert text.splitlines()[-1].startswith("Power: a system's average varies by 18.4 points from seed to seed")


def test_two_systems_on_one_benchmark_have_neither_matrix_nor_benchmarks(scores, plan):
    two = EvaluationPlan(systems=plan.systems[:2], reference="single")
    text = comparisons_section(
        Grid.of([one for one in scores if one.system != "debate" and one.benchmark == "algebra"], two)
    )
    assert "for the 1 test of this table" in text
    assert "All with all" not in text
    assert "Benchmark by benchmark" not in text


def test_one_seed_has_differences_and_tests_over_problems_alone(one_seed):
    text = comparisons_section(one_seed)
    assert "| debate | +37.5 | – | – | – | – | – | +25.0 |" in text
    assert "| debate | +50.0 | +25.0 |" in text
    assert "| debate | 62.5 (50.0 to 75.0) | +37.5 (+0.0 to +75.0) | 0.500 | 1 | 0 | 1.000 |" in text
    assert text.count("| row minus column |") == 1
    assert text.splitlines()[-1].startswith("One seed allows no test over seeds")


def test_benchmarks_of_one_problem_have_no_intervals(scores, plan):
    text = comparisons_section(Grid.of([one for one in scores if one.problem == "p"], plan))
    assert "| one agent | 50.0 | reference | – | – | – | – |" in text
    assert "| debate | 87.5 | +37.5 |" in text


def test_too_many_systems_for_a_matrix_have_the_reference_alone(scores, plan):
    single = plan.systems[0]
    copies = [
        single.model_copy(update={"name": f"s{place}", "title": f"copy|{place}"}) for place in range(WIDEST_MATRIX)
    ]
    own = [one for one in scores if one.system == "single"]
    given = [replace(one, system=copy.name) for copy in copies for one in own]
    many = comparisons_section(Grid.of([*own, *given], EvaluationPlan(systems=(single, *copies), reference="single")))
    assert f"With {WIDEST_MATRIX + 1} systems the matrices are too wide to show" in many
    assert r"| row minus column | 1 one agent | 2 copy\|0 |" in many
    assert many.count("\n| 1 one agent | – | +0.0 |") == 1
    assert many.count("\n| 1 one agent | – | 1.000 |") == 1
    fits = EvaluationPlan(systems=(single, *copies[:-1]), reference="single")
    text = comparisons_section(Grid.of([*own, *(one for one in given if one.system != copies[-1].name)], fits))
    assert "too wide" not in text
    assert text.count("\n| 14 copy") == 2


def test_the_benchmarks_in_the_sentence_on_power_are_only_names(scores, plan):
    two = EvaluationPlan(systems=plan.systems[:2], reference="single")
    given = [
        replace(one, benchmark="<b>", problem=f"{number}", seed=seed)
        for number in range(20)
        for seed in range(5)
        for one in (scores[(number + seed) % 2], scores[8])
    ]
    assert comparisons_section(Grid.of(given, two)).endswith(r" on \<b\> (20 problems).")


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
