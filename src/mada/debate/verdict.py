"""One answer out of many: a vote over the last round, in which equal answers count together (I2).

Ties go to the answer with more votes in the round before, then in the one before that, and so on back to the first;
if they are tied there too, to the shorter spelling, then to the first in alphabetical order. Position has no weight: in
whichever order the responses come, the verdict is the same.

Two other rules serve rivals of a debate. `pick` lets the last round choose among the first round's answers, as a judge
does; `weigh` counts votes by how sure of itself a reply was.

Equality is the grader's. It is not quite transitive (5 equals 5 cm and 5 m, which differ), so answers are grouped in a
fixed order, shortest first: each joins the first group whose first member it equals.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
    """Count the last round's answers, `None` for those who gave none, and break a tie by the rounds before."""
    *earlier, counts = [Counter(classes[answer] for answer in _given(answers)) for answers in answers_of_rounds]
    return _verdict(
        counts,
        counts=counts,
        answers=answers_of_rounds[-1],
        classes=classes,
        tie_break=lambda one: tuple(-votes[one] for votes in reversed(earlier)),
    )


def pick(answers_of_rounds: Sequence[Sequence[str | None]], classes: Classes) -> Verdict:
    """Choose the first round's answer that most of the last round give too: what judges do, and best-of-n by critics.

    Ties go to the answer with more votes in the first round, then by spelling. Who names none of the candidates counts
    as unanswered; if nobody names one, the candidates' own vote decides.
    """
    candidates, last = answers_of_rounds[0], answers_of_rounds[-1]
    own = Counter(classes[answer] for answer in _given(candidates))
    support = Counter(classes[answer] for answer in _given(last) if classes[answer] in own)
    if not support:
        return decide(answers_of_rounds[:1], classes)
    verdict = _verdict(support, counts=support, answers=candidates, classes=classes, tie_break=lambda one: (-own[one],))
    return replace(verdict, unanswered=len(last) - support.total())


def weigh(responses_of_rounds: Sequence[Sequence[Response]], classes: Classes) -> Verdict:
    """Vote over the last round with exp(mean log-probability of its tokens) as the weight of a reply.

    That is the geometric mean of its tokens' probabilities: how sure of itself a reply was. Where an engine gives no
    log-probabilities every weight is 1, which is the plain vote.
    """
    last = responses_of_rounds[-1]
    weights: dict[str, list[float]] = {}
    for response in last:
        if response.answer is not None:
            weights.setdefault(classes[response.answer], []).append(math.exp(response.mean_log_prob or 0.0))
    return _verdict(
        # Exact sums: in whichever order the replies come, the weights are the same.
        {one: math.fsum(parts) for one, parts in weights.items()},
        counts={one: len(parts) for one, parts in weights.items()},
        answers=[response.answer for response in last],
        classes=classes,
    )


def _verdict(
    scores: Mapping[str, float],
    *,
    counts: Mapping[str, int],
    answers: Sequence[str | None],
    classes: Classes,
    tie_break: Callable[[str], tuple[int, ...]] = lambda _: (),
) -> Verdict:
    """Rank groups of equal answers by score, then by `tie_break`, then by spelling."""
    given = _given(answers)
    spellings = {one: _spelling(answer for answer in given if classes[answer] == one) for one in scores}
    ranked = sorted(scores, key=lambda one: (-scores[one], tie_break(one), *_shortest_first(spellings[one])))
    return Verdict(
        answer=spellings[ranked[0]] if ranked else None,
        votes=tuple(Votes(spellings[one], counts[one]) for one in ranked),
        tie=len(ranked) > 1 and scores[ranked[0]] == scores[ranked[1]],
        unanswered=len(answers) - len(given),
    )


def apply_rule(rule: Rule, responses_of_rounds: Sequence[Sequence[Response]], classes: Classes) -> Verdict:
    """Come to one answer by a rule, with all answers grouped already."""
    if rule == "weigh":
        return weigh(responses_of_rounds, classes)
    by_answers: Callable[[Sequence[Sequence[str | None]], Classes], Verdict] = pick if rule == "pick" else decide
    return by_answers([[response.answer for response in given] for given in responses_of_rounds], classes)


async def group_equal(answers: Iterable[str], *, grader: Grader, known: Classes | None = None) -> dict[str, str]:
    """Group answers that are equal to the grader, into the groups of `known` where they fit.

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
