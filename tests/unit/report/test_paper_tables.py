"""The paper's tables of a small run: to the letter in LaTeX, and what is left out."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mada.evaluation.grid import Grid, Omitted
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.summary import summarize
from mada.report.forms.latex import latex
from mada.report.paper import paper_tables
from mada.report.paper.accuracy import pairs_of, single_agents_of
from mada.report.paper.costs import costs_of, inference_table, parameters_text, training_table, value_text
from mada.report.paper.shading import PaperSystems
from mada.report.reading import Source
from mada.runs import Run
from scores import score_of

GOLDENS = Path(__file__).parent / "goldens"


def shades(table):
    """Shades as the paper's source has them, by row: `g79` for 79 % green; `.` for none; `y` is gray."""
    letters = {"green": "g", "red": "r", "gray": "y"}
    return {
        row[0].text: " ".join(
            f"{letters[cell.shade.colour]}{cell.shade.intensity}" if cell.shade else "." for cell in row[1:]
        )
        for row in table.rows
    }


def texts(table):
    return {row[0].text: [cell.text + cell.stars for cell in row[1:]] for row in table.rows}


# A small run: three seeds, two benchmarks of ten problems. `RIGHT` has how many are right by benchmark and seed, in the
# first round and in the last; everybody in a round says the same.
RIGHT = {
    "single": ([(4, 4), (5, 4), (4, 5)],),
    "debate": ([(4, 4), (5, 4), (4, 5)], [(5, 4), (5, 5), (6, 4)]),
    "vote": ([(6, 4), (5, 5), (5, 6)],),
    "mada": ([(6, 6), (7, 5), (6, 6)], [(8, 7), (9, 7), (8, 8)]),
}
ABLATED = {
    "mada": RIGHT["mada"],
    "rounds-1": RIGHT["mada"][:1],
    "rounds-3": (*RIGHT["mada"], [(8, 8), (9, 7), (8, 9)]),
    "agents-1+1/a": ([(6, 5), (6, 6), (5, 6)], [(6, 6), (7, 6), (7, 5)]),
    "agents-1+1/b": ([(6, 5), (6, 6), (5, 6)], [(7, 6), (7, 6), (7, 6)]),
    "no-counterfactual": ([(6, 6), (7, 5), (6, 6)], [(8, 6), (8, 7), (8, 8)]),
}
SYSTEMS = {
    "single": PlannedSystem(name="single", title="single agent, untrained", generators=("base",), parameters=0),
    "debate": PlannedSystem(
        name="debate",
        title="debate, untrained",
        generators=("base",) * 3,
        critics=("base",) * 3,
        rounds=2,
        parameters=0,
    ),
    "vote": PlannedSystem(name="vote", title="vote of 6 & more", generators=("base",) * 6, parameters=0),
    "mada": PlannedSystem(
        name="mada", title="MADA_debate", generators=("g",) * 3, critics=("c",) * 3, rounds=2, parameters=407_040
    ),
}
ABLATIONS = (
    SYSTEMS["mada"],
    PlannedSystem(name="rounds-1", title="1 round", generators=("g",) * 3, parameters=203_520),
    PlannedSystem(name="rounds-3", title="3 rounds", generators=("g",) * 3, critics=("c",) * 3, rounds=3),
    PlannedSystem(name="agents-1+1", title="1 generator + 1 critic", members=("agents-1+1/a", "agents-1+1/b")),
    *(
        PlannedSystem(name=f"agents-1+1/{one}", title=one, generators=("g",), critics=("c",), rounds=2, shown=False)
        for one in "ab"
    ),
    PlannedSystem(
        name="no-counterfactual", title="no counterfactual", generators=("g",) * 3, critics=("d",) * 3, rounds=2
    ),
)


class SmallRecipe(BaseModel):
    seed: int = 7
    team: dict[str, Any] = {"generators": 3, "critics": 3, "rounds": 2}
    training: dict[str, Any] = {
        "batch_size": 16,
        "learning_rate": 1e-6,
        "epochs": 1.0,
        "adam_epsilon": 1e-8,
        "adam_beta1": 0.9,
        "steps": None,
        "schedule": "linear",
        "kl_coefficient": 0.04,
    }
    generators: dict[str, Any] = {"advantage": "grpo", "steps": None}
    critics: dict[str, Any] = {"advantage": "counterfactual", "steps": 60}
    lora: dict[str, Any] = {"rank": 16, "alpha": 128.0, "dropout": 0.05}
    inference: dict[str, Any] = {"temperature": 1.0, "top_k": None, "max_new_tokens": 32768}
    evaluation: dict[str, Any] = {"seeds": 3, "problems": None, "benchmarks": ["a_1", "b"]}


def scored(system, rounds):
    """Scores of a system whose rounds are right about so many of ten problems; 100 tokens for every reply."""
    seats = [system.generators, *[system.critics] * (len(rounds) - 1)]
    for index, benchmark in enumerate(("a_1", "b")):
        for seed, problem in product(range(3), range(10)):
            right = [[problem < counts[seed][index]] * len(who) for counts, who in zip(rounds, seats, strict=True)]
            at = {"benchmark": benchmark, "seed": seed, "problem": str(problem)}
            yield score_of(system.name, right, **at, tokens=100, prompts=50)


def grid_of(systems, right):
    scores = [score for one in systems if one.name in right for score in scored(one, right[one.name])]
    return Grid.of(scores, EvaluationPlan(systems=tuple(systems), reference="mada", benchmarks=("a_1", "b")))


@pytest.fixture
def source(tmp_path):
    with Run.open(tmp_path / "small", SmallRecipe()) as run:
        yield Source(
            title="small",
            run=run,
            grid=grid_of(SYSTEMS.values(), RIGHT),
            left_out=Omitted(),
            ablations=grid_of(ABLATIONS, ABLATED),
            efforts=(),
        )


@pytest.fixture
def tables(source):
    return {table.name: table for table in paper_tables(source)}


NAMES = (
    "main-results",
    "significance",
    "costs-performance",
    "ablations",
    "single-agent",
    "training-hyperparameters",
    "inference-hyperparameters",
    "pairwise-differences",
    "pairwise-p",
)


def test_a_run_has_all_tables_in_the_order_of_the_paper(tables):
    assert tuple(tables) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_tables_in_latex(tables, name):
    assert latex(tables[name]) == (GOLDENS / f"{name}.tex").read_text(encoding="utf-8")


def test_the_small_run_by_hand(tables):
    """Of 20 answers 15, 16, 16 and 9, 10, 10 are right; of 60 questions 11 are corrected, and 4 with 1 damaged."""
    assert texts(tables["main-results"])["MADA_debate"] == ["83.3(3.3)", "73.3(3.3)", "78.3(1.7)"]
    # The columns reach from 43.3 to 83.3, from 43.3 to 73.3 and from 43.3 to 78.3.
    assert shades(tables["main-results"])["MADA_debate"] == "g75 g100 g86"
    assert texts(tables["costs-performance"]) == {
        "debate, untrained": ["0", "–", "600", "6.7", "1.7"],
        "single agent, untrained": ["0", "–", "100", "–", "–"],
        "vote of 6 & more": ["0", "–", "600", "–", "–"],
        "MADA_debate": ["4.07e5", "+737,028", "600", "18.3", "0.0"],
    }
    # Less damage is better.
    assert shades(tables["costs-performance"])["MADA_debate"] == "y100 g100 y100 g100 g100"
    assert texts(tables["single-agent"])["MADA_debate"][:2] == ["60.00(0)", "−18.3(1.7)"]
    assert shades(tables["single-agent"]) == {"debate, untrained": ". . . .", "MADA_debate": "g100 y100 . ."}


def systems_of(*systems, reference="mada"):
    chosen = tuple(systems)
    scores = [score for one in chosen for score in scored(one, RIGHT[one.name])]
    return PaperSystems.of(summarize(Grid.of(scores, EvaluationPlan(systems=chosen, reference=reference))))


def named(groups):
    return [[one.system.name for one in group] for group in groups()]


def test_the_base_is_the_untrained_debate_or_the_next_best():
    single, debate, vote, mada = SYSTEMS.values()
    unknown = [one.model_copy(update={"parameters": None}) for one in (single, debate, mada)]
    assert systems_of(single, debate, vote, mada).base.system is debate
    assert systems_of(mada, single, vote).base.system is single
    assert systems_of(*unknown).base.system is unknown[0]


def test_rows_are_grouped_by_base_untrained_trained_and_reference():
    single, debate, vote, mada = SYSTEMS.values()
    assert named(systems_of(mada, single, debate, vote).groups) == [["debate"], ["single", "vote"], ["mada"]]
    trained = vote.model_copy(update={"parameters": 5})
    assert named(systems_of(trained, mada, debate).groups) == [["debate"], ["vote"], ["mada"]]
    # A base that is the reference too has one row.
    assert named(systems_of(debate, mada, reference="debate").groups) == [["debate"], ["mada"]]


def test_a_run_with_nothing_but_a_recipe(source):
    bare = replace(source, grid=None, ablations=None)
    assert [table.name for table in paper_tables(bare)] == ["training-hyperparameters", "inference-hyperparameters"]


def test_one_system_alone_is_compared_with_nothing(source):
    alone = Grid.of(
        scored(SYSTEMS["mada"], RIGHT["mada"]), EvaluationPlan(systems=(SYSTEMS["mada"],), reference="mada")
    )
    found = {table.name: table for table in paper_tables(replace(source, grid=alone, ablations=None))}
    assert tuple(found) == ("main-results", "costs-performance", "single-agent", *NAMES[5:7])
    assert len(found["main-results"].notes) == 1
    assert shades(found["main-results"]) == {"MADA_debate": ". . ."}
    assert texts(found["costs-performance"]) == {"MADA_debate": ["4.07e5", "600", "18.3", "0.0"]}


def test_one_seed_allows_no_test(source):
    scores = [score for score in source.grid.scores.values() if score.seed == 0]
    found = {
        table.name: table
        for table in paper_tables(replace(source, grid=Grid.of(scores, source.grid.plan), ablations=None))
    }
    assert "pairwise-p" not in found
    assert texts(found["significance"])["debate, untrained"] == ["45.0", "+30.0", "–", "–"]
    assert found["significance"].notes[1] == "One seed has no standard error and allows no test."
    assert set(" ".join(shades(found["main-results"]).values()).split()) == {"."}


def test_a_single_benchmark_is_the_average(source):
    scores = [score for score in source.grid.scores.values() if score.benchmark == "b"]
    plan = source.grid.plan.model_copy(update={"benchmarks": ("b",)})
    found = paper_tables(replace(source, grid=Grid.of(scores, plan), ablations=None))
    assert [column.heading for column in found[0].columns] == ["system", "average"]
    assert "of per-seed accuracies (3 seeds per system)" in found[1].notes[1]


def test_an_evaluation_without_debates_has_no_table_of_them():
    single, vote = SYSTEMS["single"], SYSTEMS["vote"]
    scores = [score for one in (single, vote) for score in scored(one, RIGHT[one.name])]
    grid = Grid.of(scores, EvaluationPlan(systems=(single, vote), reference="vote"))
    systems = PaperSystems.of(summarize(grid))
    assert single_agents_of(grid, systems) is None
    table = costs_of(grid, systems)
    assert [column.heading for column in table.columns] == ["system", "tokens/question"]


def test_more_systems_than_a_page_holds_have_no_matrix():
    many = [SYSTEMS["single"].model_copy(update={"name": f"s{place}"}) for place in range(25)]
    for count, expected in ((2, False), (3, True), (24, True), (25, False)):
        scores = [score for one in many[:count] for score in scored(one, RIGHT["single"])]
        systems = PaperSystems.of(
            summarize(Grid.of(scores, EvaluationPlan(systems=tuple(many[:count]), reference="s0")))
        )
        assert bool(pairs_of(systems.summary)) is expected, count


@pytest.mark.parametrize(
    ("value", "text"),
    [(16, "16"), (1e-6, "1e-06"), (0.7, "0.7"), (1.0, "1"), ("linear", "linear"), (True, "yes"), (False, "no")],
)
def test_settings_as_people_write_them(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("parameters", "text"), [(0, "0"), (7, "7.00e0"), (110_400_000, "1.10e8"), (999_999, "1.00e6")]
)
def test_parameters_as_people_write_them(parameters, text):
    assert parameters_text(parameters) == text


@pytest.mark.parametrize(
    "recipe", [{}, {"training": None}, {"training": 3, "team": []}, {"evaluation": {"seeds": None}}]
)
def test_recipes_that_say_nothing_have_no_table(recipe):
    assert training_table(recipe) is None
    assert inference_table(recipe) is None


def test_epochs_are_left_out_where_everybody_has_steps():
    def settings(recipe):
        table = training_table(recipe)
        return [row[0].text for row in table.rows] if table else []

    training = {"epochs": 1.0}
    assert settings({"training": training, "critics": {"steps": 9}}) == ["epochs", "steps of critics"]
    both = {"training": training, "critics": {"steps": 9}, "generators": {"steps": 8}}
    assert settings(both) == ["steps of generators", "steps of critics"]
    assert settings({"training": training | {"steps": 5}}) == ["steps"]


def test_a_recipe_is_shown_and_not_obeyed():
    table = training_table({"training": {"schedule": "\\input{x} \x1b[2J", "batch_size": {"deep": 1}}})
    assert table
    assert texts(table) == {"schedule": ["\\input{x} \x1b[2J"]}
    assert "\\textbackslash{}input\\{x\\}" in latex(table)
