"""The ablations of a trained team (E4): with fewer or more rounds, fewer agents, one agent in all seats, other critics.

Smaller teams are the average over every combination of agents, homogeneous ones over every choice of a generator and a
critic. A generator's sample has the number of its own seat everywhere, so all of them reuse the team's answers.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from mada.evaluation.kinds import debate_of
from mada.evaluation.plan import PlannedSystem


def ablations_of(
    generators: Sequence[str], critics: Sequence[str], *, rounds: int, no_counterfactual: Sequence[str] = ()
) -> Iterator[PlannedSystem]:
    """Yield the ablations of a team, each family followed by its members.

    `no_counterfactual` names critics trained on the same data with GRPO's advantage (A3), where there are any.
    """
    for count in sorted({1, 2, 3, rounds + 1} - {rounds}):
        title = "1 round, generators alone" if count == 1 else f"{count} rounds"
        yield debate_of(f"rounds-{count}", title, generators, critics=critics, rounds=count)
    for size in range(1, max(len(generators), len(critics))):
        chosen = list(
            product(_choices(generators, min(size, len(generators))), _choices(critics, min(size, len(critics))))
        )
        members = [
            _member(f"agents-{size}+{size}", generators, critics, own, others, rounds=rounds) for own, others in chosen
        ]
        agents = f"{_counted(min(size, len(generators)), 'generator')} + {_counted(min(size, len(critics)), 'critic')}"
        yield from _family(f"agents-{size}+{size}", agents, members)
    pairs = product(range(len(generators)), range(len(critics)))
    members = [
        _member("homogeneous", generators, critics, (own,) * len(generators), (other,) * len(critics), rounds=rounds)
        for own, other in pairs
    ]
    yield from _family("homogeneous", "homogeneous", members)
    if no_counterfactual:
        yield debate_of("no-counterfactual", "no counterfactual", generators, critics=no_counterfactual, rounds=rounds)


def _member(
    family: str,
    generators: Sequence[str],
    critics: Sequence[str],
    own: Sequence[int],
    others: Sequence[int],
    *,
    rounds: int,
) -> PlannedSystem:
    """Seat agents by their places in the team; repeated ones draw samples of their own."""
    places = [*dict.fromkeys(own)], [*dict.fromkeys(others)]
    name = f"{family}/g{'.'.join(str(place + 1) for place in places[0])}-c{'.'.join(str(p + 1) for p in places[1])}"
    system = debate_of(
        name, name, [generators[place] for place in own], critics=[critics[place] for place in others], rounds=rounds
    )
    # Alone in all seats, a generator still says first what it says in the team.
    draws = own if len(set(own)) == len(own) else range(len(own))
    return system.model_copy(update={"draws": tuple(draws), "shown": False})


def _family(name: str, title: str, members: Sequence[PlannedSystem]) -> Iterator[PlannedSystem]:
    yield PlannedSystem(name=name, title=title, members=tuple(member.name for member in members))
    yield from members


def _choices(agents: Sequence[str], size: int) -> list[tuple[int, ...]]:
    return list(combinations(range(len(agents)), size))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
