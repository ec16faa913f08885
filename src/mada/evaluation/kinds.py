"""The kinds of systems, each a function from who sits in it to its description (see `plan` for the table of shapes)."""

from collections.abc import Sequence

from mada.evaluation.plan import Match, PlannedSystem


def agents_alone(name: str, title: str, agents: Sequence[str]) -> PlannedSystem:
    """One agent that answers once, or the mean of several who do."""
    return PlannedSystem(name=name, title=title, generators=tuple(agents))


def vote_of(
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
    seated = PlannedSystem(
        name=name,
        title=title,
        generators=tuple(agents),
        rule="weigh" if weighted else "vote",
        matched_to=matched_to,
        match=match,
    )
    return seated if matched_to else seated.with_generators(samples or len(agents))


def judged(
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
    return vote_of(name, title, agents, samples=samples, matched_to=matched_to, match=match).model_copy(
        update={"critics": (judge,), "rounds": 2, "rule": "pick"}
    )


def best_by_critics(
    name: str, title: str, agents: Sequence[str], *, critics: Sequence[str], samples: int | None = None
) -> PlannedSystem:
    """Best of n: critics read all samples, and the sample that most of them agree with is chosen."""
    return vote_of(name, title, agents, samples=samples).model_copy(
        update={"critics": tuple(critics), "rounds": 2, "rule": "pick"}
    )


def debate_of(
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
