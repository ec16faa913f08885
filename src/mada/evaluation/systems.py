"""Kinds of systems and the ablations of a team, as functions that return descriptions (see `plan` for the shapes)."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from mada.evaluation.plan import Match, PlannedSystem
from mada.text import counted


def single_agents(name: str, title: str, agents: Sequence[str]) -> PlannedSystem:
    """One agent that answers once, or the mean of several who do."""
    return PlannedSystem(name=name, title=title, generators=tuple(agents))


def majority_vote(
    name: str,
    title: str,
    agents: Sequence[str],
    *,
    samples: int | None = None,
    matched_to: str | None = None,
    match: Match = "tokens",
    weighted: bool = False,
) -> PlannedSystem:
    """Self-consistency: a vote over samples of agents who take turns, so many or as many as another's budget allows."""
    system = PlannedSystem(
        name=name,
        title=title,
        generators=tuple(agents),
        rule="weigh" if weighted else "vote",
        matched_to=matched_to,
        match=match,
    )
    return system if matched_to else system.with_generators(samples or len(agents))


def llm_judge(
    name: str,
    title: str,
    agents: Sequence[str],
    *,
    judge: str,
    samples: int | None = None,
    matched_to: str | None = None,
    match: Match = "tokens",
) -> PlannedSystem:
    """LLM-as-judge: an agent with the judge's prompt chooses among samples."""
    return majority_vote(name, title, agents, samples=samples, matched_to=matched_to, match=match).model_copy(
        update={"critics": (judge,), "rounds": 2, "rule": "pick"}
    )


def best_of_n(
    name: str, title: str, agents: Sequence[str], *, critics: Sequence[str], samples: int | None = None
) -> PlannedSystem:
    """Best of n: critics read all samples, and the sample that most of them agree with is chosen."""
    return majority_vote(name, title, agents, samples=samples).model_copy(
        update={"critics": tuple(critics), "rounds": 2, "rule": "pick"}
    )


def debate_system(
    name: str, title: str, generators: Sequence[str], *, critics: Sequence[str], rounds: int
) -> PlannedSystem:
    """A debate; of one round it is the generators alone."""
    return PlannedSystem(
        name=name,
        title=title,
        generators=tuple(generators),
        critics=tuple(critics) if rounds > 1 else (),
        rounds=rounds,
    )


def ablations_of(
    generators: Sequence[str], critics: Sequence[str], *, rounds: int, no_counterfactual: Sequence[str] = ()
) -> Iterator[PlannedSystem]:
    """Yield the ablations of a team (E4), each family followed by its members.

    Smaller teams are averaged over every combination of agents, homogeneous ones over every generator and critic. A
    generator's sample has the number of its index everywhere, so all of them reuse the team's answers.

    `no_counterfactual` names critics trained on the same data with GRPO's advantage (A3), where there are any.
    """
    for count in sorted({1, 2, 3, rounds + 1} - {rounds}):
        title = "1 round, generators alone" if count == 1 else f"{count} rounds"
        yield debate_system(f"rounds-{count}", title, generators, critics=critics, rounds=count)
    for size in range(1, max(len(generators), len(critics))):
        name, sizes = f"agents-{size}+{size}", (min(size, len(generators)), min(size, len(critics)))
        members = [
            _member(name, generators, critics, own, others, rounds=rounds)
            for own in combinations(range(len(generators)), sizes[0])
            for others in combinations(range(len(critics)), sizes[1])
        ]
        yield from _family(name, f"{counted(sizes[0], 'generator')} + {counted(sizes[1], 'critic')}", members)
    pairs = product(range(len(generators)), range(len(critics)))
    members = [
        _member("homogeneous", generators, critics, (own,) * len(generators), (other,) * len(critics), rounds=rounds)
        for own, other in pairs
    ]
    yield from _family("homogeneous", "homogeneous", members)
    if no_counterfactual:
        yield debate_system(
            "no-counterfactual", "no counterfactual", generators, critics=no_counterfactual, rounds=rounds
        )


def _member(
    family: str,
    generators: Sequence[str],
    critics: Sequence[str],
    own: Sequence[int],
    others: Sequence[int],
    *,
    rounds: int,
) -> PlannedSystem:
    """Return a system of the team's agents with these indices; repeated agents draw different samples."""
    numbers = [".".join(str(index + 1) for index in dict.fromkeys(indices)) for indices in (own, others)]
    name = f"{family}/g{numbers[0]}-c{numbers[1]}"
    system = debate_system(
        name, name, [generators[index] for index in own], critics=[critics[index] for index in others], rounds=rounds
    )
    # A generator that answers for all still has its sample of the team first.
    draws = own if len(set(own)) == len(own) else range(len(own))
    return system.model_copy(update={"draws": tuple(draws), "shown": False})


def _family(name: str, title: str, members: Sequence[PlannedSystem]) -> Iterator[PlannedSystem]:
    yield PlannedSystem(name=name, title=title, members=tuple(member.name for member in members))
    yield from members
