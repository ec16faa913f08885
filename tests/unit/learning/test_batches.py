import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mada.learning.batches import CreditedCompletion, micro_batches
from mada.models.adapters import Routing

AGENTS = ["c", "a", "b"]


def completion(agent, prompt, length, first=0):
    return CreditedCompletion(agent, tuple(range(first, first + prompt)), tuple(range(1, 1 + length)), None, 1.0)


COMPLETIONS = st.lists(
    st.builds(completion, st.sampled_from(AGENTS), st.integers(1, 9), st.integers(1, 30), st.integers(0, 5)),
    max_size=20,
)


def padding_share(batches):
    return 1 - sum(one.length for batch in batches for one in batch.completions) / sum(batch.size for batch in batches)


def places_of_agents(batch):
    return [AGENTS.index(one.agent) for one in batch.completions]


@given(COMPLETIONS, st.integers(1, 120), st.booleans())
def test_every_completion_is_in_exactly_one_batch_that_fits(completions, max_tokens, share):
    batches = micro_batches(completions, agents=AGENTS, max_tokens=max_tokens, share_prompts=share)
    assert sorted(place for batch in batches for place in batch.indices) == list(range(len(completions)))
    for batch in batches:
        assert batch.size <= max_tokens or len(batch.completions) == 1
        assert [completions[place] for place in batch.indices] == list(batch.completions)
        assert places_of_agents(batch) == sorted(places_of_agents(batch))
    assert batches == micro_batches(completions, agents=AGENTS, max_tokens=max_tokens, share_prompts=share)


def group(agent, prompt, lengths, first=0):
    return [completion(agent, prompt, length, first) for length in lengths]


def test_long_prompts_are_passed_once_and_their_groups_stay_together():
    """As critics' are: row by row these are about 500 tokens, with every prompt once about 140."""
    completions = [*group("a", 40, [2, 1, 2, 1]), *group("b", 40, [1, 1, 1, 1]), *group("b", 40, [2, 2, 2, 2], first=9)]
    shuffled = [completions[place] for place in (5, 9, 0, 6, 2, 11, 1, 8, 3, 7, 10, 4)]
    batches = micro_batches(shuffled, agents=AGENTS, max_tokens=100, share_prompts=True)
    assert [batch.size for batch in batches] == [96, 44]
    assert [[(one.agent, one.prompt_ids[0]) for one in batch.completions] for batch in batches] == [
        [("a", 0)] * 4 + [("b", 9)] * 4,
        [("b", 0)] * 4,
    ]
    assert all(batch.shares_prompts for batch in batches)
    assert not any(batch.shares_prompts for batch in micro_batches(shuffled, agents=AGENTS, max_tokens=100))


@pytest.mark.parametrize(("prompt", "shares"), [(8, False), (9, True)])
def test_prompts_are_passed_once_where_that_saves_a_fifth(prompt, shares):
    """Three times prompt + 20 by row against prompt + 60: 84 and 68, 87 and 69."""
    batches = micro_batches(group("a", prompt, [20] * 3), agents=AGENTS, max_tokens=500, share_prompts=True)
    assert [batch.shares_prompts for batch in batches] == [shares]


def test_a_group_too_large_for_one_pass_is_cut():
    batches = micro_batches(group("a", 40, [2] * 8), agents=AGENTS, max_tokens=50, share_prompts=True)
    assert [(len(batch.indices), batch.size) for batch in batches] == [(5, 50), (3, 46)]


@given(COMPLETIONS)
def test_with_room_for_all_there_is_one_batch(completions):
    batches = micro_batches(completions, agents=AGENTS, max_tokens=20 * 39)
    assert len(batches) == bool(completions)


@pytest.mark.parametrize("max_tokens", [36, 72, 1000])
def test_equally_many_rows_per_agent_where_lengths_allow(max_tokens):
    """Agents of like lengths are cut into blocks that adapted layers compute without a gate."""
    completions = [completion(agent, 2, length) for agent in AGENTS for length in (10, 8, 6, 4)]
    for batch in micro_batches(completions, agents=AGENTS, max_tokens=max_tokens):
        assert Routing.of(places_of_agents(batch), torch.ones(3)).span == (0, 3)


def test_unlike_lengths_are_sorted_rather_than_padded():
    long = [completion("a", 2, 28) for _ in range(4)]
    short = [completion("b", 2, 3) for _ in range(4)]
    batches = micro_batches(long + short, agents=AGENTS, max_tokens=120)
    assert padding_share(batches) == 0


def test_sorted_cuts_pad_little():
    completions = [completion(AGENTS[place % 3], 5, 1 + place) for place in range(30)]
    batches = micro_batches(completions, agents=AGENTS, max_tokens=120)
    assert padding_share(batches) < 0.1
    assert padding_share(micro_batches(completions, agents=AGENTS, max_tokens=10_000)) > 0.4


def test_what_a_batch_holds():
    first, second = completion("a", 3, 2), completion("b", 1, 1, first=7)
    (batch,) = micro_batches([second, first], agents=["a", "b"], max_tokens=100)
    assert batch.indices == (1, 0)
    assert (batch.width, batch.size) == (5, 10)
    assert batch.padded_ids().tolist() == [[0, 1, 2, 1, 2], [7, 1, 0, 0, 0]]
    assert batch.completion_positions().tolist() == [3, 4, 6]
    assert batch.completion_lengths == [2, 1]
    assert padding_share([batch]) == pytest.approx(0.3)


def test_what_cannot_be_learnt_from_is_refused():
    with pytest.raises(ValueError, match="at least one token each, got 0 and 1 from a"):
        CreditedCompletion("a", (1,), (), None, 1.0)
    with pytest.raises(ValueError, match="at least one token each"):
        CreditedCompletion("a", (), (1,), None, 1.0)
    with pytest.raises(ValueError, match="2 tokens but 1 log-prob"):
        CreditedCompletion("a", (1,), (1, 2), (-0.5,), 1.0)
