"""The price of a prompt token, on engines whose speed is known."""

import asyncio

import pytest

from mada.errors import EvaluationError
from mada.evaluation.budgets import measure_prompt_price
from mada.models.engines import Completion, EngineStatistics


class Timed:
    """An engine of 4 rows that takes a known time for each token, by a clock of its own."""

    slots = 4
    statistics = EngineStatistics()

    def __init__(self, *, prompt, generated, most=10**9, disturbed=0.0):
        self.prompt, self.generated, self.most = prompt, generated, most
        self.disturbed = disturbed
        self.now = 0.0
        self.requests = []

    async def sample(self, agent, prompt_ids, sampling, *, n=1):
        self.requests.append((agent, tuple(prompt_ids), sampling))
        tokens = min(sampling.max_tokens, self.most)
        first = len(self.requests) <= self.slots
        self.now += self.prompt * len(prompt_ids) + self.generated * tokens + (100.0 if first else 0.0)
        # In the first batch of short replies, and in the first of long ones.
        self.now += self.disturbed * (len(self.requests) in (5, 9))
        return [Completion((1,) * tokens, (0.0,) * tokens, "length")]

    def clock(self):
        return self.now


def measured(engine, *, prompt=range(5, 60)):
    return asyncio.run(measure_prompt_price(engine, "critic", prompt_ids=prompt, clock=engine.clock))


@pytest.mark.parametrize("length", [55, 1])
@pytest.mark.parametrize(
    ("prompt", "generated", "price"), [(0.001, 0.01, 0.1), (0.00234567, 0.01, 0.23), (0.0, 1.0, 0.0), (2.0, 1.0, 2.0)]
)
def test_it_is_the_time_of_a_prompt_token_over_that_of_a_generated_one(prompt, generated, price, length):
    assert measured(Timed(prompt=prompt, generated=generated), prompt=range(length)) == pytest.approx(price)


def test_every_row_is_filled_with_a_prompt_of_its_own_and_replies_do_not_end_early():
    engine = Timed(prompt=1.0, generated=1.0)
    measured(engine)
    assert len(engine.requests) % engine.slots == 0
    assert len({prompt for _, prompt, _ in engine.requests}) == len(engine.requests), "none is known from before"
    for agent, prompt, sampling in engine.requests:
        assert agent == "critic"
        assert sorted(prompt) == list(range(5, 60))
        assert sampling.stop_tokens == ()


def test_replies_that_end_by_themselves_are_counted_as_long_as_they_are():
    assert measured(Timed(prompt=0.1, generated=1.0, most=7)) == pytest.approx(0.1)


def test_the_shortest_times_count():
    engine = Timed(prompt=0.001, generated=0.01, disturbed=5.0)
    assert measured(engine) == pytest.approx(0.1)


def test_an_engine_that_generates_in_no_time_has_no_price():
    with pytest.raises(EvaluationError, match="prompt_price"):
        measured(Timed(prompt=1.0, generated=0.0))
