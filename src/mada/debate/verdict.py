"""One answer out of many: a vote over the last round, in which equal answers count together (I2).

Ties go to the answer with more votes in the round before, then in the one before that, and so on back to the first;
if they are tied there too, to the shorter spelling, then to the first in alphabetical order. Seats have no weight: in
whichever order the responses come, the verdict is the same.

Two other rules serve rivals of a debate. `pick` lets the last round choose among the first round's answers, as a judge
does; `weigh` counts votes by how sure of itself a reply was.

Equality is the grader's. It is not quite transitive (5 equals 5 cm and 5 m, which differ), so answers are grouped in a
fixed order, shortest first: each joins the first group whose first member it equals.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from mada.debate.transcript import Response, Verdict, Votes
from mada.grading import Grader

Classes = Mapping[str, str]
"""For each spelling of an answer the one that stands for all that equal it."""


Rule = Literal["vote", "pick", "weigh"]
"""How a system comes to its one answer."""


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


def pick(answers_of_rounds: Sequence[Sequence[str | None]], classes: Classes) -> Verdict:
    """Choose the first round's answer that most of the last round give too: what judges do, and best-of-n by critics.

    Ties go to the answer with more votes in the first round, then by spelling. Who names none of the candidates counts
    as unanswered; if nobody names one, the candidates' own vote decides.
    """
    candidates, last = _given(answers_of_rounds[0]), answers_of_rounds[-1]
    own = Counter(classes[answer] for answer in candidates)
    support = Counter(classes[answer] for answer in _given(last) if classes[answer] in own)
    if not support:
        return decide(answers_of_rounds[:1], classes)
    spellings = {one: _spelling(answer for answer in candidates if classes[answer] == one) for one in support}
    ranked = sorted(support, key=lambda one: (-support[one], -own[one], *_shortest_first(spellings[one])))
    return Verdict(
        answer=spellings[ranked[0]],
        votes=tuple(Votes(spellings[one], support[one]) for one in ranked),
        tie=len(ranked) > 1 and support[ranked[0]] == support[ranked[1]],
        unanswered=len(last) - support.total(),
    )


def weigh(responses_of_rounds: Sequence[Sequence[Response]], classes: Classes) -> Verdict:
    """Vote over the last round with exp(mean log-probability of its tokens) as the weight of a reply.

    That is the geometric mean of its tokens' probabilities: how sure of itself a reply was. Where an engine gives no
    log-probabilities every weight is 1, which is the plain vote.
    """
    last = [response for response in responses_of_rounds[-1] if response.answer is not None]
    verdict = decide([[response.answer for response in responses_of_rounds[-1]]], classes)
    given: dict[str, list[float]] = {}
    for response in last:
        given.setdefault(classes[response.answer or ""], []).append(math.exp(response.mean_log_prob or 0.0))
    # Exact sums: in whichever order the replies come, the weights are the same.
    weights = {one: math.fsum(shares) for one, shares in given.items()}

    def rank(one: Votes) -> tuple[float, int, str]:
        return -weights[classes[one.answer]], *_shortest_first(one.answer)

    votes = sorted(verdict.votes, key=rank)
    if not votes:
        return verdict
    tie = len(votes) > 1 and weights[classes[votes[0].answer]] == weights[classes[votes[1].answer]]
    return Verdict(votes[0].answer, tuple(votes), tie=tie, unanswered=verdict.unanswered)


def settle(rule: Rule, responses_of_rounds: Sequence[Sequence[Response]], classes: Classes) -> Verdict:
    """Come to one answer by a rule, with all answers grouped already."""
    if rule == "weigh":
        return weigh(responses_of_rounds, classes)
    by_answers: Callable[[Sequence[Sequence[str | None]], Classes], Verdict] = pick if rule == "pick" else decide
    return by_answers([[response.answer for response in given] for given in responses_of_rounds], classes)


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
