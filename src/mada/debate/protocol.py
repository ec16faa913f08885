"""Who speaks when, and who sees what (I1): generators answer, then critics, each seeing the whole round before.

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


class DebateError(MadaError):
    """A debate that cannot be held: seats or rounds are missing."""


class Agent(Protocol):
    """Whoever fills a seat: a model with an adapter, a bare model, a program, a person."""

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
    `draws` numbers the generators' samples: debates that seat an agent with the same number share what it says. By
    default a seat's number is its place, from 0.
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
            _turn(agent, question, seen, number=number, seat=seat, seed=own, events=events)
            for seat, (agent, own) in enumerate(zip(agents, seeds, strict=True))
        ]
        debate = debate.with_round(role, await gather_or_cancel(turns))
    return debate


async def _turn(
    agent: Agent,
    question: str,
    seen: Sequence[Response],
    *,
    number: int,
    seat: int,
    seed: int,
    events: Events,
) -> Turn:
    turn = await agent.answer(question, seen, seed=seed)
    events.emit(TurnFinished(number, seat, turn))
    return turn


def check_agents(generators: Sequence[object], critics: Sequence[object], *, rounds: int) -> None:
    """Refuse a debate in which somebody would be asked who is not there."""
    if rounds < 1:
        raise DebateError(f"got {rounds} rounds, wanted at least 1: the generators' own")
    if not generators:
        raise DebateError("got no generators, wanted at least 1: somebody has to answer first")
    if rounds > 1 and not critics:
        raise DebateError(f"got {rounds} rounds and no critics; give it critics, or 1 round")


def check_question(question: str) -> None:
    """Refuse what is no question: nothing, or text that no tokenizer can read."""
    if not question.strip():
        raise DataError("the question is empty; wanted some text to debate")
    # Bytes that are not UTF-8 reach Python as halves of two-part characters.
    if not question.isascii() and any("\ud800" <= character <= "\udfff" for character in question):
        raise DataError(f"the question holds half of a character ({question[:40]!a}); write it as UTF-8")
