"""Systems: their cost, and that systems with the same seats draw the same samples."""

import asyncio
from dataclasses import dataclass, field

import pytest

from mada.debate.protocol import DebateError
from mada.debate.response import Response
from mada.debate.transcript import Turn
from mada.evaluation.systems import System


@dataclass
class Speaker:
    name: str = "speaker"
    seeds: list[int] = field(default_factory=list)

    async def answer(self, question, seen, *, seed):
        self.seeds.append(seed)
        return Turn(self.name, question, 1, Response("", None, 1))


@pytest.mark.parametrize(
    ("generators", "critics", "rounds", "calls"), [(1, 0, 1, 1), (5, 0, 1, 5), (3, 3, 2, 6), (3, 2, 3, 7), (3, 3, 1, 3)]
)
def test_calls_per_question(generators, critics, rounds, calls):
    system = System("s", "S", (Speaker(),) * generators, (Speaker(),) * critics, rounds)
    assert system.calls == calls
    debate = asyncio.run(system.debate("q", seed=0))
    assert sum(len(one.turns) for one in debate.rounds) == calls


def test_a_debate_without_critics_is_refused():
    with pytest.raises(DebateError, match="no critics"):
        System("s", "S", (Speaker(),), rounds=2)


def test_equal_seats_get_equal_seeds_in_every_system():
    single, vote, debate = Speaker(), Speaker(), Speaker()
    critic = Speaker()
    asyncio.run(System("single", "", (single,)).debate("q", seed=4))
    asyncio.run(System("vote", "", (vote,) * 3, measure="vote").debate("q", seed=4))
    asyncio.run(System("debate", "", (debate,) * 3, (critic,) * 2, rounds=2).debate("q", seed=4))
    assert single.seeds == vote.seeds[:1]
    assert vote.seeds == debate.seeds
    assert len({*vote.seeds, *critic.seeds}) == 5
