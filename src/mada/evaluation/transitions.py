"""How right and wrong answers change in a debate: round by round, critic by critic (E3).

All of it follows from the scores. A round's vote is the vote (`mada.debate.verdict.decide`) that would have been the
verdict, had the debate ended there. So for a debate, from the first vote to the last, wrong to right is what `improves`
and right to wrong what `damages` shows; a judge has the votes of its rounds too, though its verdict is by another rule.

Everything is averaged as all tables are, each benchmark with equal weight. An accuracy *given* something is a quotient
of two such averages: how often it happens and is right, by how often it happens. So shares times accuracies sum up to
the accuracy of all.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from mada.debate.verdict import decide
from mada.evaluation.grid import Grid, ScoreKey, score_key
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.scores import Score

AnswerSource = Literal["majority", "minority", "new", "none"]
"""Where a critic's answer comes from: the vote of the round before, another answer of it, neither; or no answer."""
SOURCES: tuple[AnswerSource, ...] = ("majority", "minority", "new", "none")


@dataclass(frozen=True, slots=True)
class Transitions:
    """Shares of right and wrong before and after, which sum to 1. No answer is a wrong one."""

    right_to_right: float
    right_to_wrong: float
    wrong_to_right: float
    wrong_to_wrong: float

    @classmethod
    def of(cls, amounts: Mapping[tuple[bool, bool], float]) -> Self:
        """Normalize weights by (before, after)."""
        total = sum(amounts.values())
        right_right, right_wrong, wrong_right, wrong_wrong = (
            amounts.get((before, after), 0.0) / total for before in (True, False) for after in (True, False)
        )
        return cls(right_right, right_wrong, wrong_right, wrong_wrong)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a debate makes of first rounds of one kind.

    `share` is how often that kind occurs and `count` in how many debates; `accuracy` is the mean of the last round's
    answers given that, `vote` how often its vote is right. Both are None where it never occurs.
    """

    count: int
    share: float
    accuracy: float | None
    vote: float | None


@dataclass(frozen=True, slots=True)
class SourceShare:
    """How often critics' answers come from one source, as a share of their turns, and how often those are right.

    `accuracy` is None where it never happens.
    """

    share: float
    accuracy: float | None


AnswerSources = Mapping[AnswerSource, SourceShare]
"""Where critics' answers come from; the shares sum to 1."""


@dataclass(frozen=True, slots=True)
class DebateTransitions:
    """The transitions of a system's debates, as shares from 0 to 1.

    `votes` has a step per round after the first, from the vote before it to its own; `overall` is from the first vote
    to the last. `turns` is by critic, from the vote of the round before to the critic's own answer. `by_right` is
    indexed by the number of right generators, `by_seat` by the seat of the only right generator: critics who judge what
    they read find it in any seat. A question's critic turns weigh the same together, however many they are.
    """

    votes: tuple[Transitions, ...]
    overall: Transitions
    turns: Mapping[str, Transitions]
    by_right: tuple[Outcome, ...]
    by_seat: tuple[Outcome, ...]
    sources: AnswerSources
    sources_by_critic: Mapping[str, AnswerSources]


def debate_transitions(grid: Grid, system: PlannedSystem) -> DebateTransitions | None:
    """Return the transitions of a system, or of a family over all its members; None where one has no second round.

    Members with more rounds than others have those in `overall` alone: `votes` is of the steps that all of them took.
    """
    rounds = min(score.rounds for score in grid.scores_of(system))
    if rounds < 2:
        return None
    rounds_of = {score_key(score): _Rounds.of(score) for score in grid.scores_of(system)}

    def steps(score: Score) -> dict[tuple[int, bool, bool], float]:
        votes = rounds_of[score_key(score)].votes_right
        return {(step, votes[step], votes[step + 1]): 1.0 for step in range(rounds - 1)}

    def overall(score: Score) -> dict[tuple[bool, bool], float]:
        votes = rounds_of[score_key(score)].votes_right
        return {(votes[0], votes[-1]): 1.0}

    def turns(score: Score) -> Mapping[_Turn, float]:
        return rounds_of[score_key(score)].turns

    of_steps, of_turns = grid.averages(system, steps), grid.averages(system, turns)
    critics = sorted({turn.critic for turn in of_turns})
    seats = max(len(score.correct[0]) for score in grid.scores_of(system))
    return DebateTransitions(
        votes=tuple(
            Transitions.of({(before, after): share for (at, before, after), share in of_steps.items() if at == step})
            for step in range(rounds - 1)
        ),
        overall=Transitions.of(grid.averages(system, overall)),
        turns={critic: _transitions(_of_critic(of_turns, critic)) for critic in critics},
        by_right=_outcomes(grid, system, rounds_of, kinds=seats + 1, kind=lambda score: sum(score.correct[0])),
        by_seat=_outcomes(grid, system, rounds_of, kinds=seats, kind=_only_right),
        sources=_sources(of_turns),
        sources_by_critic={critic: _sources(_of_critic(of_turns, critic)) for critic in critics},
    )


@dataclass(frozen=True, slots=True)
class _Turn:
    """A kind of critic turn; turns of one kind are counted together."""

    critic: str
    source: AnswerSource
    vote_before_right: bool
    right: bool


@dataclass(frozen=True, slots=True)
class _Rounds:
    """One score round by round; `turns` maps kinds of turns to their shares of all critics' turns."""

    votes_right: tuple[bool, ...]
    turns: Mapping[_Turn, float]

    @classmethod
    def of(cls, score: Score) -> Self:
        numbers = {answer: group for answer, group, _ in _turns(score) if answer is not None and group is not None}
        # Equality is not quite transitive, so answers of one group may differ in being right: spellings decide that.
        right = {answer for answer, _, correct in _turns(score) if correct}
        votes = _votes(score, numbers)
        turns: Counter[_Turn] = Counter()
        for number, vote in enumerate(votes[:-1], start=1):
            before = set(score.groups[number - 1])
            majority = None if vote is None else numbers[vote]
            for critic, group, correct in zip(
                score.agents[number], score.groups[number], score.correct[number], strict=True
            ):
                turns[_Turn(critic, _source(group, before, majority=majority), vote in right, correct)] += 1
        shares = {turn: count / turns.total() for turn, count in turns.items()}
        return cls(tuple(vote in right for vote in votes), shares)


def _turns(score: Score) -> Iterator[tuple[str | None, int | None, bool]]:
    """Yield the answer, its group and whether it is right, of all turns."""
    for row in zip(score.answers, score.groups, score.correct, strict=True):
        yield from zip(*row, strict=True)


def _votes(score: Score, numbers: Mapping[str, int]) -> list[str | None]:
    """Return the vote of every round, None where nobody answered."""
    spellings = {number: answer for answer, number in numbers.items()}
    classes = {answer: spellings[number] for answer, number in numbers.items()}
    return [decide(score.answers[:count], classes).answer for count in range(1, score.rounds + 1)]


def _source(group: int | None, before: set[int | None], *, majority: int | None) -> AnswerSource:
    if group is None:
        return "none"
    if group == majority:
        return "majority"
    return "minority" if group in before else "new"


def _of_critic(turns: Mapping[_Turn, float], critic: str) -> dict[_Turn, float]:
    return {turn: share for turn, share in turns.items() if turn.critic == critic}


def _transitions(turns: Mapping[_Turn, float]) -> Transitions:
    amounts: dict[tuple[bool, bool], float] = {}
    for turn, share in turns.items():
        passed = (turn.vote_before_right, turn.right)
        amounts[passed] = amounts.get(passed, 0.0) + share
    return Transitions.of(amounts)


def _sources(turns: Mapping[_Turn, float]) -> AnswerSources:
    total = sum(turns.values())
    sources: dict[AnswerSource, SourceShare] = {}
    for source in SOURCES:
        share = sum(share for turn, share in turns.items() if turn.source == source)
        right = sum(share for turn, share in turns.items() if turn.source == source and turn.right)
        sources[source] = SourceShare(share / total, right / share if share else None)
    return sources


def _outcomes(
    grid: Grid,
    system: PlannedSystem,
    rounds_of: Mapping[ScoreKey, _Rounds],
    *,
    kinds: int,
    kind: Callable[[Score], int | None],
) -> tuple[Outcome, ...]:
    """Return the outcome of first rounds of each kind, numbered from 0; those of kind None are left out."""

    def outcomes(score: Score) -> dict[tuple[int, str], float]:
        number = kind(score)
        if number is None:
            return {}
        vote = rounds_of[score_key(score)].votes_right[-1]
        return {(number, "share"): 1.0, (number, "accuracy"): score.accuracy, (number, "vote"): float(vote)}

    averages = grid.averages(system, outcomes)
    counts = Counter(map(kind, grid.scores_of(system)))
    return tuple(
        Outcome(
            counts[number],
            share=averages[number, "share"],
            accuracy=averages[number, "accuracy"] / averages[number, "share"],
            vote=averages[number, "vote"] / averages[number, "share"],
        )
        if counts[number]
        else Outcome(0, 0.0, None, None)
        for number in range(kinds)
    )


def _only_right(score: Score) -> int | None:
    """Return the seat of the first round's only right answer, or None."""
    return score.correct[0].index(True) if sum(score.correct[0]) == 1 else None
