"""One answer out of many: a vote over the last round, in which equal answers count together (I2).

Ties go to the answer with more votes in the round before, then in the one before that, and so on back to the first;
if they are tied there too, to the shorter spelling, then to the first in alphabetical order. Seats have no weight: in
whichever order the responses come, the verdict is the same.

Equality is the grader's. It is not quite transitive (5 equals 5 cm and 5 m, which differ), so answers are grouped in a
fixed order, shortest first: each joins the first group whose first member it equals.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from mada.debate.response import Response
from mada.debate.transcript import Verdict, Votes
from mada.grading import Grader

Classes = Mapping[str, str]
"""For each spelling of an answer the one that stands for all that equal it."""


async def vote(responses_of_rounds: Sequence[Sequence[Response]], *, grader: Grader) -> Verdict:
    """Vote over the last of these rounds; the earlier ones are looked at only to break a tie."""
    if not responses_of_rounds:
        raise ValueError("a vote needs at least one round of responses")
    answers = [[response.answer for response in responses] for responses in responses_of_rounds]
    classes = await group_equal(_given(answers[-1]), grader=grader)
    verdict = decide(answers[-1:], classes)
    if not verdict.tie or len(answers) == 1:
        return verdict
    earlier = [answer for given in answers[:-1] for answer in _given(given)]
    return decide(answers, await group_equal(earlier, grader=grader, known=classes))


def decide(answers_of_rounds: Sequence[Sequence[str | None]], classes: Classes) -> Verdict:
    """Count the last round's answers, `None` for those who gave none, and settle a tie by the rounds before."""
    last = answers_of_rounds[-1]
    counts_of_rounds = [Counter(classes[answer] for answer in _given(given)) for given in answers_of_rounds]
    counts = counts_of_rounds[-1]
    unanswered = sum(answer is None for answer in last)
    if not counts:
        return Verdict(answer=None, unanswered=unanswered)
    spellings = {one: _spelling(answer for answer in _given(last) if classes[answer] == one) for one in counts}

    def rank(one: str) -> tuple[list[int], int, str]:
        latest_first = [-votes[one] for votes in reversed(counts_of_rounds)]
        return latest_first, *_shortest_first(spellings[one])

    ranked = sorted(counts, key=rank)
    return Verdict(
        answer=spellings[ranked[0]],
        votes=tuple(Votes(spellings[one], counts[one]) for one in ranked),
        tie=len(ranked) > 1 and counts[ranked[0]] == counts[ranked[1]],
        unanswered=unanswered,
    )


async def group_equal(answers: Iterable[str], *, grader: Grader, known: Classes | None = None) -> dict[str, str]:
    """Group answers that the grader holds equal, into the groups of `known` where they fit.

    Most answers are spelled alike, so only different spellings are compared, each with one member of a group.
    """
    classes = dict(known or {})
    waiting = sorted(set(answers) - classes.keys(), key=_shortest_first)
    standing = sorted(set(classes.values()), key=_shortest_first)
    while waiting:
        one = standing.pop(0) if standing else waiting[0]
        grades = await grader.compare_async([(answer, one) for answer in waiting if answer != one])
        joined = {one, *(grade.answer for grade in grades if grade.correct)}
        classes.update({answer: one for answer in waiting if answer in joined})
        waiting = [answer for answer in waiting if answer not in joined]
    return classes


def _given(answers: Sequence[str | None]) -> list[str]:
    return [answer for answer in answers if answer is not None]


def _spelling(answers: Iterable[str]) -> str:
    counts = Counter(answers)
    return min(counts, key=lambda answer: (-counts[answer], *_shortest_first(answer)))


def _shortest_first(answer: str) -> tuple[int, str]:
    return len(answer), answer
