"""What figures show, against numbers worked out by hand from the grid in conftest.

Over both seeds `single` is right in 3 of 8 (seed 0: 1 of 4, seed 1: 2 of 4), `vote` in 4 of 8 in either seed, and
`debate` has mean accuracies of 1, 1, ½, 0 with seed 0 and 1, 1, 1, 1 with seed 1. Every sample has 300 tokens.
"""

import json
import math
from dataclasses import replace

import pytest
from pydantic import BaseModel

import mada.runs.manifest
from mada.evaluation.grid import Grid, Omitted
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.summary import against_reference
from mada.evaluation.transitions import Transitions
from mada.report.figures.advantages import BINS, advantages_figure, histogram, histogram_edges
from mada.report.figures.debates import RightCount, critics_figure, flow_figure
from mada.report.figures.pairs import pairs_figure
from mada.report.figures.points import SystemPoint, parameters_figure, tokens_figure, with_front
from mada.report.figures.training import training_figure
from mada.report.figures.writing import figures_of
from mada.report.reading import Source
from mada.report.training import RolloutPoint, ValidationPoint, smoothed
from mada.runs import Run
from mada.runs.manifest import Commit
from scores import score_of


class Critics(BaseModel):
    advantage: str = "counterfactual"


class Recipe(BaseModel):
    seed: int = 0
    name: str = "tiny"
    critics: Critics = Critics()


@pytest.fixture(autouse=True)
def known_commit(monkeypatch):
    monkeypatch.setattr(mada.runs.manifest, "current_commit", lambda: Commit(id="abc123", dirty=False))


@pytest.fixture
def source(tmp_path):
    """Makes a source of a grid, or of none, in a new run folder."""

    def make(grid=None, *, title="first", recipe=None):
        with Run.open(tmp_path / title, recipe or Recipe()) as run:
            return Source(title, run, grid, Omitted(), None, ())

    return make


def with_parameters(grid, **parameters):
    plan = grid.plan
    systems = [one.model_copy(update={"parameters": parameters.get(one.name)}) for one in plan.systems]
    changed = EvaluationPlan.of(systems, reference=plan.reference, benchmarks=plan.benchmarks)
    return Grid.of(grid.scores.values(), changed)


def write_lines(source, name, lines):
    path = source.run.path(*name.split("/"))
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def point(x, accuracy):
    return SystemPoint("", "name", "title", x, accuracy, None, is_reference=False, is_on_front=False)


def front(*pairs):
    return [(one.x, one.accuracy) for one in with_front([point(*pair) for pair in pairs]) if one.is_on_front]


def test_the_front_is_whatever_no_other_point_beats():
    assert front((0, 0.5), (1, 0.4), (2, 0.6), (2, 0.7), (3, 0.7), (4, 0.9)) == [(0, 0.5), (2, 0.7), (4, 0.9)]


def test_twins_are_on_the_front_together_and_paying_more_for_the_same_is_not():
    assert front((1, 0.5), (1, 0.5), (2, 0.5)) == [(1, 0.5), (1, 0.5)]


def test_rounding_beats_nobody():
    assert front((1, 0.1 + 0.2), (1, 0.3)) == [(1, 0.1 + 0.2), (1, 0.3)]
    assert front((1, 0.3), (2, 0.1 + 0.2)) == [(1, 0.3)]


def test_parameters_of_the_systems_that_have_any_known(source, grid):
    figure = parameters_figure([source(with_parameters(grid, single=0, debate=5_000))])
    assert figure is not None
    single, debate = figure.points
    # Seeds average 1/4 and 1/2: the deviation is 1/4·√½, by √2 that is 1/8.
    assert replace(single, error=None) == SystemPoint(
        "", "single", "1 one agent", 0.0, 0.375, None, is_reference=True, is_on_front=True
    )
    assert single.error == pytest.approx(0.125)
    # Its single answers average 0.625 and 1 over the seeds, its verdicts 1/2 and 1: the paper's figure has the former.
    assert (debate.x, debate.accuracy, debate.error) == (5000.0, 0.8125, pytest.approx(0.1875))
    assert debate.title == "3 debate"
    assert not debate.is_reference
    assert debate.is_on_front


def test_without_any_trained_parameters_there_is_no_figure_of_them(source, grid):
    assert parameters_figure([source(grid)]) is None
    assert parameters_figure([source(with_parameters(grid, single=0, debate=0))]) is None
    assert parameters_figure([source()]) is None


def test_one_seed_has_no_errors(source, one_seed):
    figure = tokens_figure([source(one_seed)])
    assert figure is not None
    assert [one.error for one in figure.points] == [None, None, None]
    assert [at.error for at in figure.curves[0].points] == [None] * 4


def test_tokens_of_all_shown_systems(source, grid):
    figure = tokens_figure([source(grid)])
    assert figure is not None
    assert [(one.name, one.x, one.accuracy) for one in figure.points] == [
        ("single", 300.0, 0.375),
        ("vote", 1200.0, 0.5),
        ("debate", 1200.0, 0.75),
    ]
    assert [one.is_on_front for one in figure.points] == [True, False, True]


def test_votes_of_k_cost_k_samples(source, grid):
    figure = tokens_figure([source(grid)])
    assert figure is not None
    (curve,) = figure.curves
    assert (curve.run, curve.title) == ("", "votes of g")
    assert [at.k for at in curve.points] == [1, 2, 3, 4]
    assert [at.tokens for at in curve.points] == pytest.approx([300, 600, 900, 1200])
    # Half of the questions have 3 of 4 right, half 2 of 4. One sample: (3/4 + 2/4) / 2. Three of them: always a right
    # majority of 3 of 4, and half of the draws of 2 of 4.
    assert [curve.points[place].accuracy for place in (0, 2)] == pytest.approx([0.625, 0.75])


def test_an_agent_whose_votes_have_several_budgets_has_one_curve(source, scores, plan, grid):
    vote = grid.plan.systems[1]
    fewer = vote.model_copy(update={"name": "fewer", "title": "vote of 2", "generators": ("g", "g")})
    systems = (*grid.plan.systems[:1], fewer, *grid.plan.systems[1:])
    short = [_of_two(score) for score in grid.scores.values() if score.system == "vote"]
    both = Grid.of([*scores, *short], EvaluationPlan.of(systems, reference="single", benchmarks=plan.benchmarks))
    figure = tokens_figure([source(both)])
    assert figure is not None
    assert [[at.k for at in curve.points] for curve in figure.curves] == [[1, 2, 3, 4]]


def _of_two(score):
    parts = ("agents", "answers", "groups", "correct", "tokens", "prompts")
    return replace(score, system="fewer", **{part: (getattr(score, part)[0][:2],) for part in parts})


def test_several_runs_are_told_apart_and_share_one_front(source, grid, one_seed):
    figure = tokens_figure([source(grid, title="a"), source(one_seed, title="b"), source(title="empty")])
    assert figure is not None
    assert [one.run for one in figure.points] == ["a"] * 3 + ["b"] * 3
    assert [curve.run for curve in figure.curves] == ["a", "b"]
    # Seed 0 alone: single 1/4, debate 0.625, both behind the means over both seeds.
    assert [one.is_on_front for one in figure.points] == [True, False, True, False, False, False]


def test_a_window_is_centred_and_cut_off_at_the_ends():
    steps = [(1, 0.0), (2, 0.6), (3, 0.9), (4, 0.9)]
    points = smoothed(steps)
    assert [one.step for one in points] == [1, 2, 3, 4]
    assert [one.value for one in points] == pytest.approx([0.3, 0.5, 0.8, 0.9])
    # 0, 0.6 and 0.9 have the deviation √((0.25 + 0.01 + 0.16) / 3).
    deviation = math.sqrt(0.14)
    assert (points[1].low, points[1].high) == pytest.approx((0.5 - deviation, 0.5 + deviation))
    assert (points[3].low, points[3].high) == pytest.approx((0.9, 0.9))


def test_long_trainings_have_wider_windows():
    steps = [(step, float(step == 50)) for step in range(1, 101)]
    assert [one.step for one in smoothed(steps) if one.value > 0] == list(range(45, 56))


def test_a_training_of_one_step_and_one_of_none():
    assert smoothed([(7, 0.25)]) == (RolloutPoint(7, 0.25, 0.25, 0.25),)
    assert smoothed([]) == ()


def test_training_is_read_from_both_records_with_the_kept_adapter_marked(source):
    trained = source()
    steps = [("g-1", 1, 0.5), ("g-2", 1, None), ("g-1", 2, 0.7), ("g-2", 2, 0.1)]
    write_lines(
        trained,
        "generators/metrics.jsonl",
        [{"step": step, "agent": agent, "accuracy": accuracy, "loss": 1.5} for agent, step, accuracy in steps],
    )
    write_lines(
        trained,
        "critics/validation.jsonl",
        [
            {"step": step, "agent": "c", "accuracy": accuracy, "length": 9.0, "is_best": best}
            for step, accuracy, best in [(0, 0.4, True), (5, 0.6, True), (10, 0.5, False)]
        ],
    )
    figure = training_figure([trained])
    assert figure is not None
    assert [(one.run, one.role, one.agent) for one in figure.curves] == [
        ("", "generators", "g-1"),
        ("", "generators", "g-2"),
        ("", "critics", "c"),
    ]
    first, second, critic = figure.curves
    assert [one.value for one in first.rollouts] == pytest.approx([0.6, 0.6])
    assert second.rollouts == (RolloutPoint(2, 0.1, 0.1, 0.1),)
    assert critic.rollouts == ()
    assert critic.validation == (
        ValidationPoint(0, 0.4, is_best=False),
        ValidationPoint(5, 0.6, is_best=True),
        ValidationPoint(10, 0.5, is_best=False),
    )


def test_the_flow_of_votes(source, grid):
    figure = flow_figure([source(grid)])
    assert figure is not None
    (flow,) = figure.flows
    assert (flow.run, flow.title) == ("", "3 debate")
    # Ties go to the answer of the round before, then to the smaller, which is the right one: 6 of 8 stay right.
    assert flow.steps == (Transitions(0.75, 0.0, wrong_to_right=0.125, wrong_to_wrong=0.125),)


def test_a_flow_has_a_step_per_round_after_the_first(source, grid):
    plan = EvaluationPlan.of(
        [PlannedSystem(name="long", title="long", generators=("g",) * 3, critics=("c-1", "c|2"), rounds=3)],
        reference="long",
    )
    # Votes go right-right-wrong, wrong-right-right, wrong-wrong-right and right-right-right.
    rounds = [
        ([1, 1, 0], [1, 1], [0, 0]),
        ([0, 0, 1], [1, 1], [1, 1]),
        ([0, 0, 0], [0, 0], [1, 1]),
        ([1, 1, 1], [1, 1], [1, 1]),
    ]
    long = Grid.of([score_of("long", verdicts, problem=f"p{number}") for number, verdicts in enumerate(rounds)], plan)
    figure = flow_figure([source(grid, title="a"), source(long, title="b")])
    assert figure is not None
    assert [(flow.run, flow.title) for flow in figure.flows] == [("a", "3 debate"), ("b", "4 long")]
    assert figure.flows[1].steps == (Transitions(0.5, 0.0, 0.25, 0.25), Transitions(0.5, 0.25, 0.25, 0.0))


def test_critics_by_right_generators(source, grid):
    figure = critics_figure([source(grid, title="a"), source(grid, title="b")])
    assert figure is not None
    assert [(one.run, one.title, one.generators) for one in figure.systems] == [
        ("a", "3 debate", 2),
        ("b", "3 debate", 2),
    ]
    none, one, both = figure.systems[0].counts
    # Nobody right: one failed, one corrected. One right: corrected. Both right: five times, once half of it lost.
    assert none == RightCount(0, 2, share=0.25, accuracy=0.5, vote=0.5)
    assert one == RightCount(1, 1, share=0.125, accuracy=1.0, vote=1.0)
    assert (both.debates, both.share, both.accuracy) == (5, 0.625, pytest.approx(0.9))


def test_edges_are_symmetric_with_zero_in_the_middle_of_a_bin():
    edges = histogram_edges([0.5, -3.1, 2.0])
    assert len(edges) == BINS + 1
    assert (edges[0], edges[-1]) == (-3.1, 3.1)
    assert [-edge for edge in reversed(edges)] == pytest.approx(edges)
    assert edges[BINS // 2] == pytest.approx(-0.1)
    assert edges[BINS // 2 + 1] == pytest.approx(0.1)


def test_values_on_an_edge_belong_above_it_and_the_last_edge_to_the_last_bin():
    assert histogram([-1.0, -0.5, 0.0, 0.49, 0.5, 1.0], (-1.0, -0.5, 0.5, 1.0)) == (1, 3, 2)


def test_nothing_but_zeros_still_makes_bins():
    edges = histogram_edges([0.0, 0.0])
    assert (edges[0], edges[-1]) == (-1.0, 1.0)
    assert histogram([0.0, 0.0], edges)[BINS // 2] == 2


def credit(advantages, group_relative):
    return {"step": 1, "agent": "c", "advantages": advantages, "group_relative": group_relative, "rewards": []}


def test_what_was_credited_and_what_grpo_would_have(source):
    trained = source()
    write_lines(trained, "critics/credits.jsonl", [credit([2.0, 0.0], [0.5, -0.5]), credit([-1.0, 0.0], [0.0, 0.0])])
    figure = advantages_figure([trained])
    assert figure is not None
    used, other = figure.series
    assert (used.run, used.title, used.mean, used.zero_share) == ("", "counterfactual", 0.25, 0.5)
    # 2, 0, −1, 0 around 0.25: (3.0625 + 0.0625 + 1.5625 + 0.0625) / 4.
    assert used.deviation == pytest.approx(math.sqrt(1.1875))
    assert (other.title, other.mean, other.zero_share) == ("GRPO's of the same rewards", 0.0, 0.5)
    assert figure.edges[-1] == 2.0
    assert sum(used.counts) == sum(other.counts) == 4
    assert (used.counts[-1], used.counts[BINS // 2]) == (1, 2)
    assert other.counts[BINS // 2] == 2


def test_grpo_is_not_compared_with_itself(source):
    trained = source(recipe=Recipe(critics=Critics(advantage="grpo")))
    write_lines(trained, "critics/credits.jsonl", [credit([1.0, -1.0], [1.0, -1.0])])
    figure = advantages_figure([trained])
    assert figure is not None
    assert [one.title for one in figure.series] == ["grpo"]


def test_older_trainings_kept_no_credits(source):
    assert advantages_figure([source()]) is None
    empty = source(title="empty")
    write_lines(empty, "critics/credits.jsonl", [])
    assert advantages_figure([empty]) is None


def test_pairs_are_those_of_the_tables(source, grid):
    figure = pairs_figure([source(grid)])
    assert figure is not None
    assert figure.systems == ("one agent", "vote | of 4", "debate")
    assert [figure.cells[place][place] for place in range(3)] == [None] * 3
    for one, cells in zip(against_reference(grid), figure.cells[1:], strict=True):
        assert cells[0] is not None
        assert (cells[0].difference, cells[0].p) == (pytest.approx(one.seeds.difference), pytest.approx(one.seeds.p))
    first = figure.cells[0][2]
    assert first is not None
    # Verdicts: errors of 1/8 and 1/4 add up in squares.
    assert (first.difference, first.standard_error) == (-0.375, pytest.approx(math.hypot(0.125, 0.25)))


def test_one_seed_has_differences_without_a_test(source, one_seed):
    figure = pairs_figure([source(one_seed)])
    assert figure is not None
    cell = figure.cells[0][1]
    assert cell is not None
    assert (cell.difference, cell.standard_error, cell.p, cell.stars) == (-0.25, None, None, "")


def test_runs_on_the_same_problems_make_one_matrix(source, grid, one_seed):
    figure = pairs_figure([source(grid, title="a"), source(title="empty"), source(one_seed, title="b")])
    assert figure is not None
    assert figure.systems[2:4] == ("a: debate", "b: one agent")
    cell = figure.cells[2][3]
    assert cell is not None
    assert cell.difference == 0.75 - 0.25


def test_runs_on_different_problems_make_none(source, grid, scores, plan):
    fewer = Grid.of([score for score in scores if score.problem == "p"], plan)
    assert pairs_figure([source(grid, title="a"), source(fewer, title="b")]) is None


def test_all_figures_in_their_order(source, grid):
    trained = source(with_parameters(grid, debate=5))
    write_lines(trained, "generators/metrics.jsonl", [{"step": 1, "agent": "g", "accuracy": 0.5}])
    write_lines(trained, "critics/credits.jsonl", [credit([1.0], [0.0])])
    names = [figure.name for figure in figures_of([trained])]
    assert names == ["parameters", "tokens", "training", "flow", "critics", "advantages", "pairs"]
