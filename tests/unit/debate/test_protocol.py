"""Who speaks when, who sees what, and what happens when somebody cannot."""

import asyncio
from dataclasses import dataclass, field

import pytest

from mada.debate.protocol import DebateError, RoundStarted, TurnFinished, check_question, run_debate
from mada.debate.transcript import Response, Turn
from mada.errors import DataError, MadaError
from mada.events import Events
from mada.seeds import seed_for


@dataclass
class Speaker:
    """Says its name and how often it has spoken; notes what it saw."""

    name: str
    waits: float = 0.0
    fails: MadaError | None = None
    saw: list[tuple[str, ...]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    cancelled: bool = False

    async def answer(self, question, seen, *, seed):
        self.saw.append(tuple(response.text for response in seen))
        self.seeds.append(seed)
        try:
            await asyncio.sleep(self.waits)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # tidying up may take a moment
            self.cancelled = True
            raise
        if self.fails:
            raise self.fails
        return Turn(self.name, question, 1, Response(f"{self.name}.{len(self.saw)}", None, 1))


def team(generators=2, critics=3):
    return [Speaker(f"g{n}") for n in range(generators)], [Speaker(f"c{n}") for n in range(critics)]


def hold(generators, critics, rounds, seed=0, events=None):
    return asyncio.run(run_debate("q", generators=generators, critics=critics, rounds=rounds, seed=seed, events=events))


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_critics_see_all_of_the_round_before_and_nothing_else(rounds):
    generators, critics = team()
    debate = hold(generators, critics, rounds)
    said = [("g0.1", "g1.1"), ("c0.1", "c1.1", "c2.1"), ("c0.2", "c1.2", "c2.2")]
    assert [tuple(response.text for response in one.responses) for one in debate.rounds] == said[:rounds]
    assert [one.role for one in debate.rounds] == ["generator", "critic", "critic"][:rounds]
    assert all(speaker.saw == [()] for speaker in generators)
    assert all(speaker.saw == said[: rounds - 1] for speaker in critics)
    assert debate.verdict is None


def test_turns_stand_in_the_order_of_seats_whoever_is_first():
    generators = [Speaker("slow", waits=0.02), Speaker("fast")]
    seen = []
    debate = hold(generators, [], 1, events=Events(seen.append))
    assert [turn.agent for turn in debate.last.turns] == ["slow", "fast"]
    slow, fast = debate.last.turns
    assert seen == [RoundStarted(1, "generator", ("slow", "fast")), TurnFinished(1, 1, fast), TurnFinished(1, 0, slow)]


def test_agents_of_a_round_speak_at_the_same_time():
    both_are_here = asyncio.Barrier(2)

    class Waiting(Speaker):
        async def answer(self, question, seen, *, seed):
            await asyncio.wait_for(both_are_here.wait(), timeout=5)
            return await super().answer(question, seen, seed=seed)

    assert len(hold([Waiting("a"), Waiting("b")], [], 1).last.turns) == 2


def test_draws_number_the_generators_samples_wherever_they_sit():
    def seeds(draws):
        generators, critics = team(generators=3 if draws is None else len(draws), critics=1)
        asyncio.run(run_debate("q", generators=generators, critics=critics, rounds=2, seed=11, draws=draws))
        return [speaker.seeds for speaker in generators], critics[0].seeds

    whole, critic = seeds(None)
    assert whole == [[seed_for(11, "turn", 1, draw)] for draw in (0, 1, 2)]
    assert seeds([0, 1, 2]) == (whole, critic)
    # Alone, or in another seat, a sample stays the same; critics are numbered by their seats all the same.
    assert seeds([1]) == (whole[1:2], critic)
    assert seeds([2, 0]) == ([whole[2], whole[0]], critic)
    assert seeds([1, 1]) == ([whole[1], whole[1]], critic)


@pytest.mark.parametrize("draws", [[], [0], [0, 1, 2]])
def test_draws_that_are_not_one_for_each_generator_are_refused(draws):
    generators, critics = team(generators=2)
    with pytest.raises(DebateError, match=f"got {len(draws)} draws for 2 generators, wanted one for each"):
        asyncio.run(run_debate("q", generators=generators, critics=critics, rounds=2, seed=0, draws=draws))
    assert not any(speaker.saw for speaker in generators), "nobody is asked before that"


def test_when_one_fails_the_others_are_stopped_before_the_failure_is_raised():
    failure = DataError("cannot")
    patient = Speaker("patient", waits=60)
    critics = [patient, Speaker("failing", fails=failure)]
    with pytest.raises(DataError) as raised:
        hold([Speaker("g")], critics, 2)
    assert raised.value is failure
    assert patient.cancelled


def test_cancelling_a_debate_stops_its_agents():
    patient = Speaker("patient", waits=60)

    async def cancel():
        task = asyncio.create_task(run_debate("q", generators=[patient], rounds=1, seed=0))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert patient.cancelled


@pytest.mark.parametrize(
    ("generators", "critics", "rounds", "complaint"),
    [
        (1, 1, 0, "got 0 rounds, wanted at least 1"),
        (0, 1, 1, "got no generators, wanted at least 1"),
        (1, 0, 2, "got 2 rounds and no critics; give it critics, or 1 round"),
    ],
)
def test_seats_and_rounds_that_do_not_go_together_are_refused(generators, critics, rounds, complaint):
    with pytest.raises(DebateError, match=complaint):
        hold(*team(generators, critics), rounds)


def test_questions_that_are_none():
    check_question("é")
    with pytest.raises(DataError, match="is empty"):
        check_question("\t")
    with pytest.raises(DataError, match="half of a character"):
        check_question("a\ud800")
