"""Systems: their cost, and that systems with the same seats draw the same samples."""

import asyncio
from dataclasses import dataclass, field

import pytest

from mada.debate.protocol import DebateError
from mada.debate.transcript import Response, Turn
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.systems import System
from mada.seeds import seed_for


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
    system = System("s", (Speaker(),) * generators, (Speaker(),) * critics, rounds)
    assert system.calls == calls
    debate = asyncio.run(system.debate("q", seed=0))
    assert sum(len(one.turns) for one in debate.rounds) == calls


def test_a_debate_without_critics_is_refused():
    with pytest.raises(DebateError, match="no critics"):
        System("s", (Speaker(),), rounds=2)


def test_equal_seats_get_equal_seeds_in_every_system():
    single, vote, debate = Speaker(), Speaker(), Speaker()
    critic = Speaker()
    asyncio.run(System("single", (single,)).debate("q", seed=4))
    asyncio.run(System("vote", (vote,) * 3).debate("q", seed=4))
    asyncio.run(System("debate", (debate,) * 3, (critic,) * 2, rounds=2).debate("q", seed=4))
    assert single.seeds == vote.seeds[:1]
    assert vote.seeds == debate.seeds
    assert len({*vote.seeds, *critic.seeds}) == 5


def test_a_planned_system_is_seated_by_name():
    speakers = {name: Speaker(name) for name in ("g1", "g2", "c1")}
    planned = PlannedSystem(
        name="judged",
        title="Judged",
        generators=("g2", "g1", "g2"),
        draws=(4, 0, 1),
        critics=("c1",),
        rounds=2,
        rule="pick",
    )
    system = System.of(planned, seat=speakers.__getitem__)
    assert (system.name, system.rounds, system.rule, system.draws) == ("judged", 2, "pick", (4, 0, 1))
    assert [agent.name for agent in system.generators] == ["g2", "g1", "g2"]
    assert [agent.name for agent in system.critics] == ["c1"]
    debate = asyncio.run(system.debate("q", seed=7))
    assert [[turn.agent for turn in one.turns] for one in debate.rounds] == [["g2", "g1", "g2"], ["c1"]]
    assert speakers["g2"].seeds == [seed_for(7, "turn", 1, 4), seed_for(7, "turn", 1, 1)]
    assert speakers["g1"].seeds == [seed_for(7, "turn", 1, 0)]
    assert debate.verdict is None


def test_critics_who_never_speak_are_not_seated():
    planned = PlannedSystem(name="s", title="S", generators=("g",), critics=("absent",))
    system = System.of(planned, seat={"g": Speaker("g")}.__getitem__)
    assert (system.critics, system.calls) == ((), 1)


def test_a_system_of_fewer_agents_says_what_the_whole_team_says():
    whole, alone = [Speaker("g1"), Speaker("g2")], Speaker("g2")
    asyncio.run(System("team", tuple(whole)).debate("q", seed=3))
    asyncio.run(System("alone", (alone,), draws=(1,)).debate("q", seed=3))
    assert alone.seeds == whole[1].seeds != whole[0].seeds
