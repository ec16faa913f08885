"""Matched budgets by hand, and the price of a prompt token on engines whose speed is known."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_score
from mada.errors import EvaluationError
from mada.evaluation.budgets import Budgets, blocks, measure_prompt_price
from mada.evaluation.plan import Match
from mada.evaluation.systems import llm_judge, majority_vote
from mada.models.engines import Completion, EngineStatistics


def score(system, agents, tokens, prompts=None, *, benchmark="b"):
    """A score with these agents, generated and prompt tokens in every round; all else does not matter here."""
    correct = [[True] * len(row) for row in tokens]
    prompts = prompts or [[0] * len(row) for row in tokens]
    changes = {"agents": agents, "tokens": tokens, "prompts": prompts}
    changes = {name: tuple(map(tuple, rows)) for name, rows in changes.items()}
    return make_score(system, (benchmark, 0, "p"), correct, **changes)


def ledger(*scores, price=None):
    made = Budgets(price)
    for one in scores:
        made.add(one)
    return made


def matched(*agents, match: Match = "tokens"):
    return majority_vote("matched", "Matched", agents, matched_to="debate", match=match)


def sizes(known, system, count=4, *, benchmark="b"):
    """How many samples the first questions have, of many."""
    return list(known.sizes(system, benchmark, range(count), of=1000).values())


JUDGE = llm_judge("judge", "Judge", ["g"], judge="j", matched_to="debate")
DEBATE = [
    score("debate", [["g", "h"], ["c"]], [[100, 300], [600]], [[40, 50], [400]]),
    score("debate", [["g", "h"], ["c"]], [[200, 200], [1000]], [[60, 50], [600]]),
]
# The debate has 1,200 tokens a question and reads 600; a sample of g has (100 + 200) / 2 = 150, of h 250, and each has
# a prompt of 50.


@pytest.mark.parametrize(
    ("agents", "expected"),
    [
        (["g"], [8, 8, 8, 8]),
        # 4.8 a question: 5 have 1,250 of 1,200; 10 have 2,500 of 2,400; 14 have 3,500 of 3,600; 19 have 4,750 of 4,800.
        (["h"], [5, 5, 4, 5]),
        # In turns, two samples have 400 tokens.
        (["g", "h"], [6, 6, 6, 6]),
        # Six have 1,100 whoever begins; then g (1,250 of 1,200), none (2,350), h (3,700 of 3,600), none (4,800).
        (["g", "g", "h"], [7, 6, 7, 6]),
    ],
)
def test_samples_come_as_close_as_they_can_to_the_tokens_of_the_other(agents, expected):
    assert sizes(ledger(*DEBATE), matched(*agents)) == expected


def test_who_begins_changes_from_question_to_question_and_is_counted():
    """Lengths of 100, 10 and 10 and a budget of 160."""
    known = ledger(score("debate", [["a", "b", "c"], ["d"]], [[100, 10, 10], [40]]))
    # a b c (120 of 160) · b c a b c (+140 = 260 of 320) and a would overshoot · c a b c (+130) …
    found = sizes(known, matched("a", "b", "c"), 6)
    spent = 0
    for number, size in enumerate(found):
        spent += sum(100 if (number + turn) % 3 == 0 else 10 for turn in range(size))
        assert abs(spent - 160 * (number + 1)) <= 50, "never further than half of the longest sample"
    assert len(set(found)) > 1


def test_all_systems_tell_how_long_an_agents_samples_are_and_only_its_first_rounds_count():
    # g's samples: 100, 200 and 450, so 250 each; what g says as a critic is no sample of it.
    more = [score("single", [["g"]], [[450]]), score("other", [["h"], ["g"]], [[250], [9000]])]
    assert sizes(ledger(*DEBATE, *more), matched("g")) == [5, 5, 4, 5]


def test_what_was_really_spent_decides_what_later_questions_have():
    known = ledger(*DEBATE)
    for number in range(10):
        known.add_matched(score("matched", [["g"] * 8], [[180] * 8]), number)  # 1,440 a question instead of 1,200
    # Of 20 × 1,200 there are 24,000 - 14,400 = 9,600 left for ten questions: 960 each, and a sample has 150.
    found = list(known.sizes(matched("g"), "b", range(10, 15), of=20).values())
    assert found == [6, 7, 6, 7, 6]
    # What was spent on questions that are not before the block does not matter.
    known.add_matched(score("matched", [["g"]], [[9_000]]), 12)
    assert list(known.sizes(matched("g"), "b", range(10, 15), of=20).values()) == found


def test_then_the_judges_own_words_are_spared_out_of_the_budget():
    heard = ledger(*DEBATE)
    for number, tokens in enumerate((10, 20, 60)):
        heard.add_matched(score("judge", [["g"] * 7, ["j"]], [[150] * 7, [tokens]]), number)
        # Nor does it matter what a judge says elsewhere or somebody else here.
        heard.add_matched(score("judge", [["g"], ["j"]], [[1], [999]], benchmark="hard"), number)
        heard.add_matched(score("other", [["g"], ["j"]], [[1], [999]]), number)
    # 30 × 1,200 less 3 × 1,050 + 90 leaves 1,213.3 for each of 27; a judge writes 30, so 1,183.3 for samples of 150.
    assert list(heard.sizes(JUDGE, "b", range(3, 8), of=30).values()) == [8, 8, 8, 8, 7]


@pytest.mark.parametrize(
    ("system", "benchmark"),
    [
        (matched("g", "stranger"), "b"),
        (matched("c"), "b"),  # only ever a critic
        (matched("g"), "elsewhere"),
        (majority_vote("matched", "Matched", ["g"], matched_to="nobody"), "b"),
        (matched("g", match="cost"), "b"),  # and no price
    ],
)
def test_what_is_not_known_is_refused(system, benchmark):
    with pytest.raises(EvaluationError, match="not known"):
        sizes(ledger(*DEBATE), system, benchmark=benchmark)


@pytest.mark.parametrize(
    ("agents", "price", "expected"),
    [
        # 1,200 + 600 × 0 = 1,200, and a sample has 150: as if by tokens.
        (["g"], 0.0, [8, 8, 8, 8]),
        # 1,200 + 600 × 0.5 = 1,500; a question's prompt of 50 is read once, for 25, and 1,475 / 150 = 9.83.
        (["g"], 0.5, [10, 10, 9, 10]),
        # Two agents read it twice: 1,500 - 2 × 25 = 1,450, which 150 + 250 + … comes near to with seven samples.
        (["g", "h"], 0.5, [7, 8, 7, 7]),
    ],
)
def test_cost_counts_prompts_at_their_price_and_a_shared_prompt_once(agents, price, expected):
    assert sizes(ledger(*DEBATE, price=price), matched(*agents, match="cost")) == expected
    assert sizes(ledger(*DEBATE, price=price), matched("g")) == [8, 8, 8, 8], "tokens stay tokens"


def test_a_prompt_that_seats_of_one_agent_share_is_paid_once_by_the_target_too():
    shared = score("debate", [["g"] * 3, ["g"] * 2], [[100] * 3, [100] * 2], [[40] * 3, [300] * 2])
    apart = score("debate", [["g", "h", "i"], ["j", "k"]], [[100] * 3, [100] * 2], [[40] * 3, [300] * 2])
    own = score("single", [["v"]], [[1]], [[0]])
    vote = majority_vote("matched", "Matched", ["v"], matched_to="debate", match="cost")
    assert sizes(ledger(shared, own, price=1.0), vote, 1) == [500 + 40 + 300]
    assert sizes(ledger(apart, own, price=1.0), vote, 1) == [500 + 3 * 40 + 2 * 300]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, [0]),
        (1, [1]),
        (2, [1, 1]),
        (6, [2, 2, 1, 1]),
        (16, [4, 6, 3, 2, 1]),
        (256, [16, 120, 60, 30, 15, 8, 4, 2, 1]),
    ],
)
def test_blocks_are_a_pilot_and_halves_of_what_is_left(count, expected):
    assert list(map(len, blocks(count))) == expected


@given(count=st.integers(1, 20_000))
def test_blocks_are_all_questions_in_order_and_few(count):
    found = blocks(count)
    assert [number for block in found for number in block] == list(range(count))
    assert len(found) <= 10


def _lengths(seed):
    """Reply lengths that differ between agents and within one, by a log-normal distribution."""
    drawn = random.Random(seed)
    median = {"a": 300, "b": 30, "c": 60, "critic": 40, "j": 80}
    return lambda agent: max(1, round(drawn.lognormvariate(0, 0.5) * median[agent]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "system",
    [
        matched("a", "b", "c"),
        matched("a"),
        matched("a", "b", "c", match="cost"),
        llm_judge("matched", "Judge", ["a", "b", "c"], judge="j", matched_to="debate"),
        llm_judge("matched", "Judge", ["a", "b", "c"], judge="j", matched_to="debate", match="cost"),
    ],
)
def test_ragged_lengths_meet_the_budget_within_one_percent(system, seed):
    count, price, length = 400, 0.1, _lengths(seed)
    debates = [
        score(
            "debate",
            ["abc", ["critic"]],
            [[length(agent) for agent in "abc"], [length("critic")]],
            [[80] * 3, [400]],
        )
        for _ in range(count)
    ]
    known = ledger(*debates, price=price)
    spent = []
    for block in blocks(count):
        for number, size in known.sizes(system, "b", block, of=count).items():
            agents = system.with_generators(size, start=number).generators
            others = [["j"]] if system.rounds > 1 else []
            spent.append(
                score(
                    "matched",
                    [agents, *others],
                    [[length(agent) for agent in agents], *([length("j")] for _ in others)],
                    [[80] * size, *([100 + 40 * size] for _ in others)],
                )
            )
            known.add_matched(spent[-1], number)

    def total(scores):
        rows = [row for one in scores for row in zip(one.agents, one.prompts, strict=True)]
        read = sum(sum(dict(zip(*row, strict=True)).values()) for row in rows)
        return sum(one.generated_tokens for one in scores) + (price * read if system.match == "cost" else 0)

    assert total(spent) == pytest.approx(total(debates), rel=0.01)


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


def test_replies_that_end_by_themselves_are_counted_as_long_as_they_are():
    assert measured(Timed(prompt=0.1, generated=1.0, most=7)) == pytest.approx(0.1)


def test_the_shortest_times_count():
    engine = Timed(prompt=0.001, generated=0.01, disturbed=5.0)
    assert measured(engine) == pytest.approx(0.1)


def test_an_engine_that_generates_in_no_time_has_no_price():
    with pytest.raises(EvaluationError, match="prompt_price"):
        measured(Timed(prompt=1.0, generated=0.0))
