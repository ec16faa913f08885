"""Costs by hand: what is counted, what is attributed, what the evaluation took; and the meter of usage."""

import pytest

from factories import make_score
from mada.evaluation.costs import (
    Reuse,
    SystemCost,
    Usage,
    UsageMeter,
    evaluation_cost,
    system_cost,
)
from mada.evaluation.grid import Grid
from mada.evaluation.plan import EvaluationPlan, PlannedSystem
from mada.evaluation.sample_cache import SampleCounts
from mada.runs import Records

SINGLE = PlannedSystem(name="single", title="Single", generators=("g",), parameters=0)
DEBATE = PlannedSystem(
    name="debate", title="Debate", generators=("g", "g"), critics=("c",), rounds=3, parameters=100_000_000
)
FAMILY = PlannedSystem(name="family", title="Family", members=("single", "debate"))
PLAN = EvaluationPlan(systems=(SINGLE, DEBATE, FAMILY), reference="single")
# Benchmark `a` has one problem, `b` two.
PLACES = [("a", 0, "a1"), ("b", 0, "b1"), ("b", 0, "b2")]
# 100 seconds and 1,000 tokens on two accelerators together, in two stretches.
ON_ACCELERATORS = (Usage(60, 50, "cuda", 2, 7, 800, 90), Usage(40, 30, "cuda", 2, 3, 200, 10))
ON_CPU = (Usage(60, 50, "cpu", 0, 7, 800, 90), Usage(40, 30, "cpu", 0, 3, 200, 10))


def score(system, place, correct, tokens, prompts):
    return make_score(system.name, place, correct, tokens=tokens, prompts=prompts)


@pytest.fixture
def grid() -> Grid:
    right, wrong = ((True, True), (True,), (True,)), ((False, False), (False,), (False,))
    return Grid.of(
        [
            *(score(SINGLE, place, ((False,),), ((100,),), ((10,),)) for place in PLACES),
            score(DEBATE, PLACES[0], right, ((100, 50), (30,), (20,)), ((10, 10), (40,), (50,))),
            score(DEBATE, PLACES[1], wrong, ((100, 100), (40,), (0,)), ((10, 10), (60,), (70,))),
            score(DEBATE, PLACES[2], wrong, ((100, 200), (60,), (40,)), ((10, 10), (80,), (90,))),
        ],
        PLAN,
    )


def test_tokens_and_calls_by_round(grid):
    costs = system_cost(grid, DEBATE)
    assert costs == SystemCost(
        # Each benchmark weighs one half: 150 of `a` and (200 + 300)/2 of `b`, and so on.
        round_tokens=(200, 40, 20),
        calls=4,
        generated_tokens=260,
        prompt_tokens=140,
        tokens_per_right_answer=520,
        parameters=100_000_000,
        seconds=None,
        accelerator_seconds=None,
        money=None,
    )


def test_a_family_costs_the_mean_of_its_members(grid):
    costs = system_cost(grid, FAMILY)
    assert costs.round_tokens == (150, 20, 10)
    assert (costs.calls, costs.generated_tokens, costs.prompt_tokens) == (2.5, 180, 75)
    assert costs.tokens_per_right_answer == 720


def test_a_right_answer_that_never_comes_has_no_price(grid):
    assert system_cost(grid, SINGLE).tokens_per_right_answer is None


def test_time_is_charged_by_tokens(grid):
    # A tenth of a second per sampled token, on two accelerators.
    costs = system_cost(grid, DEBATE, usage=ON_ACCELERATORS, price_per_hour=3.6)
    assert costs.seconds == pytest.approx(26)
    assert costs.accelerator_seconds == pytest.approx(52)
    assert costs.money == pytest.approx(0.052)
    on_cpu = system_cost(grid, DEBATE, usage=ON_CPU, price_per_hour=3.6)
    assert on_cpu.seconds == pytest.approx(26)
    assert on_cpu.accelerator_seconds is None
    assert on_cpu.money == pytest.approx(0.026)
    # Begun on a CPU, ended on accelerators: 60 + 2 · 40 seconds are paid for, and 2 · 40 are accelerators'.
    both = system_cost(grid, DEBATE, usage=(ON_CPU[0], ON_ACCELERATORS[1]), price_per_hour=3.6)
    assert both.accelerator_seconds == pytest.approx(0.08 * 260)
    assert both.money == pytest.approx(0.14 * 0.001 * 260)


def test_the_bill_of_the_whole_evaluation(grid):
    bill = evaluation_cost(grid, ON_ACCELERATORS, price_per_hour=3.6)
    # Three questions: 1 call of the single agent and 4 of the debate; a family asks for nothing itself.
    assert bill.completions == Reuse(15, 10)
    assert bill.completions.saved == pytest.approx(1 / 3)
    assert bill.generated_tokens == Reuse(300 + 200 + 240 + 400, 1000)
    assert bill.generated_tokens.saved == pytest.approx(140 / 1140)
    assert bill.prompt_tokens == Reuse(30 + 110 + 150 + 190, 100)
    assert (bill.seconds, bill.busy_seconds, bill.accelerator_seconds) == (100, 80, 200)
    assert bill.tokens_per_second == 10
    assert bill.money == pytest.approx(0.2)


def test_samples_are_counted_where_a_kill_lost_an_effort_and_efforts_where_samples_were_removed(grid):
    def sampled(completions: int, tokens: int) -> tuple[Reuse, Reuse]:
        bill = evaluation_cost(grid, ON_ACCELERATORS, sampled=SampleCounts(completions, tokens))
        return bill.completions, bill.generated_tokens

    assert sampled(12, 1100) == (Reuse(15, 12), Reuse(1140, 1100))
    assert sampled(2, 90) == (Reuse(15, 10), Reuse(1140, 1000))


def test_a_bill_on_a_cpu_and_one_of_no_time(grid):
    on_cpu = evaluation_cost(grid, ON_CPU, price_per_hour=3.6)
    assert on_cpu.accelerator_seconds is None
    assert on_cpu.money == pytest.approx(0.1)
    assert evaluation_cost(grid, ON_CPU).money is None
    unknown = evaluation_cost(grid, [], price_per_hour=3.6)
    assert (unknown.seconds, unknown.tokens_per_second, unknown.money) == (0, None, None)


def test_stretches_are_recorded_as_they_grow_long_and_the_last_however_short(tmp_path):
    """Engines do the same work in every second; what they did before counts for nothing."""
    second, device = 1000.0, ("cpu", 0)

    def read():
        return Usage(second, second / 2, *device, int(2 * second), int(8 * second), int(4 * second))

    with Records(tmp_path / "effort.jsonl", Usage) as records:
        meter = UsageMeter(records, read)
        for passed in (1, 0.75, 0.5, 20, 1, 10, 0.5):
            second += passed
            meter.record()
        device = ("NVIDIA H200", 1)
        meter.record(now=True)
        assert list(records) == [
            Usage(2.25, 1.125, "cpu", 0, 4, 18, 9),
            Usage(20, 10, "cpu", 0, 40, 160, 80),
            Usage(11, 5.5, "cpu", 0, 22, 88, 44),
            Usage(0.5, 0.25, "NVIDIA H200", 1, 1, 4, 2),
        ]
