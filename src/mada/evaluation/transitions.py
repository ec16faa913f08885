"""How right and wrong answers change in a debate: round by round, critic by critic (E3).

All of it follows from the scores. A round's vote is the vote (`mada.debate.verdict.decide`) that would have been the
verdict, had the debate ended there. So for a debate, from the first vote to the last, wrong to right is what `improves`
and right to wrong what `damages` shows; a judge has the votes of its rounds too, though its verdict is by another rule.

Everything is averaged as all tables are, each benchmark with equal weight. An accuracy *given* something is a quotient
of two such averages: how often it happens and is right, by how often it happens. So shares times accuracies sum up to
the accuracy of all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

from mada.debate.verdict import decide
from mada.evaluation.grid import Grid
from mada.evaluation.plan import PlannedSystem
from mada.evaluation.scores import Score

AnswerSource = Literal["majority", "minority", "new", "none"]
"""Where a critic's answer comes from: the vote of the round before, another answer of it, neither; or no answer."""
SOURCES: tuple[AnswerSource, ...] = ("majority", "minority", "new", "none")


Averages = Mapping[tuple[object, ...], float]
"""How often each kind of event occurs (`_events`), as averages over all questions."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """Shares of right and wrong before and after, which sum to 1. No answer is a wrong one."""

    right_to_right: float
    right_to_wrong: float
    wrong_to_right: float
    wrong_to_wrong: float

    @classmethod
    def of(cls, averages: Averages, *kind: object) -> Self:
        """Return the shares of the events that begin with `kind`; all of them end with before and after."""
        amounts: Counter[tuple[object, ...]] = Counter()
        for event, share in averages.items():
            if event[: len(kind)] == kind:
                amounts[event[-2:]] += share  # type: ignore[assignment]
        total = sum(amounts.values())
        right_right, right_wrong, wrong_right, wrong_wrong = (
            amounts[before, after] / total for before in (True, False) for after in (True, False)
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
    scores = list(grid.scores_of(system))
    rounds = min(score.rounds for score in scores)
    if rounds < 2:
        return None
    averages: Averages = grid.averages(system, _events)
    counts = Counter(kind for score in scores for kind in _first_rounds(score))
    seats = max(len(score.correct[0]) for score in scores)

    def outcomes(kind: str, numbers: int) -> tuple[Outcome, ...]:
        return tuple(_outcome(averages, kind, number, counts[kind, number]) for number in range(numbers))

    critics = sorted({str(event[1]) for event in averages if event[0] == "turn"})
    return DebateTransitions(
        votes=tuple(Transitions.of(averages, "vote", step) for step in range(rounds - 1)),
        overall=Transitions.of(averages, "overall"),
        turns={critic: Transitions.of(averages, "turn", critic) for critic in critics},
        by_right=outcomes("right", seats + 1),
        by_seat=outcomes("seat", seats),
        sources=_sources(averages, "turn"),
        sources_by_critic={critic: _sources(averages, "turn", critic) for critic in critics},
    )


def _events(score: Score) -> Mapping[tuple[object, ...], float]:
    """Return what happens in a debate, each event with its weight.

    "vote", step, before, after        a round's vote is right or wrong, and the next round's
    "overall", before, after           the first vote and the last
    "turn", critic, source, before, after   the vote that a critic saw, and its own answer; all turns sum to 1
    "right" or "seat", number, value   the share, accuracy and last vote of first rounds of a kind
    """
    # Equality is not quite transitive, so answers of one group may differ in being right: spellings decide that.
    right = {answer for answer, _, correct in _replies(score) if correct}
    groups = {answer: group for answer, group, _ in _replies(score) if answer is not None and group is not None}
    spellings = {group: answer for answer, group in groups.items()}
    classes = {answer: spellings[group] for answer, group in groups.items()}
    votes = [decide(score.answers[:count], classes).answer for count in range(1, score.rounds + 1)]
    passed = [vote in right for vote in votes]
    turns: Counter[tuple[object, ...]] = Counter()
    for number, vote in enumerate(votes[:-1], start=1):
        before = set(score.groups[number - 1])
        majority = None if vote is None else groups[vote]
        for critic, group, correct in zip(
            score.agents[number], score.groups[number], score.correct[number], strict=True
        ):
            turns["turn", critic, _source(group, before, majority=majority), vote in right, correct] += 1
    events: dict[tuple[object, ...], float] = {turn: count / turns.total() for turn, count in turns.items()}
    events |= {("vote", step, *pair): 1.0 for step, pair in enumerate(pairwise(passed))}
    events["overall", passed[0], passed[-1]] = 1.0
    for kind in _first_rounds(score):
        events |= {(*kind, "share"): 1.0, (*kind, "accuracy"): score.accuracy, (*kind, "vote"): float(passed[-1])}
    return events


def _replies(score: Score) -> Iterator[tuple[str | None, int | None, bool]]:
    """Yield the answer, its group and whether it is right, of all turns."""
    for row in zip(score.answers, score.groups, score.correct, strict=True):
        yield from zip(*row, strict=True)


def _first_rounds(score: Score) -> Iterator[tuple[str, int]]:
    """Yield the kinds of a score's first round: how many are right, and the seat if only one is."""
    first = score.correct[0]
    yield "right", sum(first)
    if sum(first) == 1:
        yield "seat", first.index(True)


def _source(group: int | None, before: set[int | None], *, majority: int | None) -> AnswerSource:
    if group is None:
        return "none"
    if group == majority:
        return "majority"
    return "minority" if group in before else "new"


def _sources(averages: Averages, *kind: object) -> AnswerSources:
    turns = {event: share for event, share in averages.items() if event[: len(kind)] == kind}
    total = sum(turns.values())
    sources: dict[AnswerSource, SourceShare] = {}
    for source in SOURCES:
        share = sum(share for event, share in turns.items() if event[2] == source)
        right = sum(share for event, share in turns.items() if event[2] == source and event[-1])
        sources[source] = SourceShare(share / total, right / share if share else None)
    return sources


def _outcome(averages: Averages, kind: str, number: int, count: int) -> Outcome:
    if not count:
        return Outcome(0, 0.0, None, None)
    share, accuracy, vote = (averages[kind, number, value] for value in ("share", "accuracy", "vote"))
    return Outcome(count, share, accuracy / share, vote / share)
