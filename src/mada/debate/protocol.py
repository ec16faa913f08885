"""The debate (I1): generators answer in round 1, then critics, who see all responses of the round before.

A debate is an ordinary coroutine for one question. Run as many at once as you like: the engine behind the agents
batches whatever waits, so critics of one question are sampled beside generators of another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mada.concurrency import gather_or_cancel
from mada.debate.transcript import Debate, Response, Role, Turn
from mada.errors import DataError, MadaError
from mada.events import Event, Events
from mada.seeds import seed_for
from mada.text import has_lone_surrogate


class DebateError(MadaError):
    """A debate that cannot run: agents or rounds are missing."""


class Agent(Protocol):
    """Whatever answers: a model with an adapter, a bare model, a program, a person."""

    @property
    def name(self) -> str:
        """What the transcript calls this agent."""
        ...

    async def answer(self, question: str, seen: Sequence[Response], *, seed: int) -> Turn:
        """Answer a question, given all responses of the round before; in round 1 there are none."""
        ...


@dataclass(frozen=True)
class RoundStarted(Event):
    """The agents of a round have been asked. Rounds count from 1."""

    round: int
    role: Role
    agents: tuple[str, ...]


@dataclass(frozen=True)
class TurnFinished(Event):
    """An agent has answered; `index` is its position in the round, from 0."""

    round: int
    index: int
    turn: Turn


async def run_debate(
    question: str,
    *,
    generators: Sequence[Agent],
    critics: Sequence[Agent] = (),
    rounds: int,
    seed: int,
    draws: Sequence[int] | None = None,
    events: Events | None = None,
) -> Debate:
    """Let generators answer in round 1 and critics in rounds 2 to `rounds`; the verdict is left to `vote`.

    Same question, agents and seed: same debate. If one agent fails, the others of its round are stopped first.
    `draws` numbers the generators' samples: debates that give an agent the same number share what it says. By
    default an agent's number is its index, from 0.
    """
    check_agents(generators, critics, rounds=rounds)
    if draws is not None and len(draws) != len(generators):
        raise DebateError(f"got {len(draws)} draws for {len(generators)} generators, wanted one for each")
    events = events or Events()
    debate = Debate(question)
    for number in range(1, rounds + 1):
        role, agents = ("generator", generators) if number == 1 else ("critic", critics)
        seen = debate.last.responses if debate.rounds else ()
        events.emit(RoundStarted(number, role, tuple(agent.name for agent in agents)))
        numbers = draws if draws is not None and number == 1 else range(len(agents))
        seeds = [seed_for(seed, "turn", number, draw) for draw in numbers]
        turns = [
            _turn(agent, question, seen, number=number, index=index, seed=own, events=events)
            for index, (agent, own) in enumerate(zip(agents, seeds, strict=True))
        ]
        debate = debate.with_round(role, await gather_or_cancel(turns))
    return debate


async def _turn(
    agent: Agent,
    question: str,
    seen: Sequence[Response],
    *,
    number: int,
    index: int,
    seed: int,
    events: Events,
) -> Turn:
    turn = await agent.answer(question, seen, seed=seed)
    events.emit(TurnFinished(number, index, turn))
    return turn


def check_agents(generators: Sequence[object], critics: Sequence[object], *, rounds: int) -> None:
    """Raise DebateError unless there are agents for every round."""
    if rounds < 1:
        raise DebateError(f"got {rounds} rounds, wanted at least 1: the generators' own")
    if not generators:
        raise DebateError("got no generators, wanted at least 1")
    if rounds > 1 and not critics:
        raise DebateError(f"got {rounds} rounds and no critics; give it critics, or 1 round")


def check_question(question: str) -> None:
    """Refuse what is no question: nothing, or text that no tokenizer can read."""
    if not question.strip():
        raise DataError("the question is empty; wanted some text to debate")
    if has_lone_surrogate(question):
        raise DataError(f"the question holds half of a character ({question[:40]!a}); write it as UTF-8")
