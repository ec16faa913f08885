"""What became of right and wrong answers in a debate: round by round, critic by critic (E3).

Accuracy before and after says that a debate helped; the ledger says how. It is made of the scores alone. The vote of a
round is the vote (`mada.debate.verdict.decide`) that would have been the verdict, had the debate ended there. So for a
debate, from the first vote to the last, wrong to right is what `improves` and right to wrong what `damages` shows; a
judge's ledger has the votes of its rounds too, though its verdict is by another rule.

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
"""Where a critic's answer is from: the vote of the round before, another answer given there, nowhere; or no answer."""
SOURCES: tuple[AnswerSource, ...] = ("majority", "minority", "new", "none")


@dataclass(frozen=True, slots=True)
class Transitions:
    """How right and wrong passed from one answer to a later one; the four shares sum to 1. No answer is a wrong one."""

    right_to_right: float
    right_to_wrong: float
    wrong_to_right: float
    wrong_to_wrong: float

    @classmethod
    def of(cls, amounts: Mapping[tuple[bool, bool], float]) -> Self:
        """Make shares of how much there is of each (before, after)."""
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
    """How often critics' answers are from one source, as a share of their turns, and how often those are right.

    `accuracy` is None where it never happens.
    """

    share: float
    accuracy: float | None


AnswerSources = Mapping[AnswerSource, SourceShare]
"""Where critics have their answers from; the shares sum to 1."""


@dataclass(frozen=True, slots=True)
class DebateTransitions:
    """The transitions of a system's debates, as shares from 0 to 1.

    `votes` has a step per round after the first, from the vote before it to its own; `overall` is from the first vote
    to the last. `turns` is by critic, from the vote of the round before to the critic's own answer: what it does with
    what it is shown. `by_right` has a place for every number of right generators, from 0; `by_seat` has one for every
    seat, of the debates whose only right generator sat there: critics who judge what they read find it in any seat.
    However many turns critics take about a question, all of them together weigh the same.
    """

    votes: tuple[Transitions, ...]
    overall: Transitions
    turns: Mapping[str, Transitions]
    by_right: tuple[Outcome, ...]
    by_seat: tuple[Outcome, ...]
    sources: AnswerSources
    sources_by_critic: Mapping[str, AnswerSources]


def debate_transitions(grid: Grid, system: PlannedSystem) -> DebateTransitions | None:
    """Keep the ledger of a system, or of a family over all its members; None where somebody has no second round.

    Members with more rounds than others have those in `overall` alone: `votes` is of the steps that all of them took.
    """
    rounds = min(score.rounds for score in grid.scores_of(system))
    if rounds < 2:
        return None
    readings = {score_key(score): _Reading.of(score) for score in grid.scores_of(system)}

    def steps(score: Score) -> dict[tuple[int, bool, bool], float]:
        votes = readings[score_key(score)].votes_right
        return {(step, votes[step], votes[step + 1]): 1.0 for step in range(rounds - 1)}

    def overall(score: Score) -> dict[tuple[bool, bool], float]:
        votes = readings[score_key(score)].votes_right
        return {(votes[0], votes[-1]): 1.0}

    def turns(score: Score) -> Mapping[_Turn, float]:
        return readings[score_key(score)].turns

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
        by_right=_outcomes(grid, system, readings, kinds=seats + 1, kind=lambda score: sum(score.correct[0])),
        by_seat=_outcomes(grid, system, readings, kinds=seats, kind=_only_right),
        sources=_copying(of_turns),
        sources_by_critic={critic: _copying(_of_critic(of_turns, critic)) for critic in critics},
    )


@dataclass(frozen=True, slots=True)
class _Turn:
    """What the ledger has to know of a critic's turn; turns that are alike are counted together."""

    critic: str
    source: AnswerSource
    vote_before_right: bool
    right: bool


@dataclass(frozen=True, slots=True)
class _Reading:
    """One score read round by round; `turns` has kinds of turns with their shares of all critics' turns."""

    votes_right: tuple[bool, ...]
    turns: Mapping[_Turn, float]

    @classmethod
    def of(cls, score: Score) -> Self:
        numbers = {answer: group for answer, group, _ in _seats(score) if answer is not None and group is not None}
        # Equality is not quite transitive, so answers of one group may differ in being right: spellings decide that.
        right = {answer for answer, _, correct in _seats(score) if correct}
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


def _seats(score: Score) -> Iterator[tuple[str | None, int | None, bool]]:
    """Yield answer, its number, and whether it is right, of all seats in all rounds."""
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


def _copying(turns: Mapping[_Turn, float]) -> AnswerSources:
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
    readings: Mapping[ScoreKey, _Reading],
    *,
    kinds: int,
    kind: Callable[[Score], int | None],
) -> tuple[Outcome, ...]:
    """Return what became of first rounds of each kind, which are numbered from 0; those of kind None are left out."""

    def outcomes(score: Score) -> dict[tuple[int, str], float]:
        number = kind(score)
        if number is None:
            return {}
        vote = readings[score_key(score)].votes_right[-1]
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
    """Return the seat of the first round's only right answer, from 0; None where there are more, or none."""
    return score.correct[0].index(True) if sum(score.correct[0]) == 1 else None
