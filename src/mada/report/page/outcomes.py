"""What became of a debate, in the words that people filter by."""

from typing import Literal, get_args

from mada.evaluation.scores import Score

Outcome = Literal["corrected", "damaged", "right throughout", "wrong throughout", "right", "wrong"]
"""How the first vote and the verdict stand to each other; with a single round there is only the verdict."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def outcome_of(score: Score) -> Outcome:
    """Say what became of a debate; `mada.report.sections.debates` has names only for those worth an example."""
    if score.rounds < 2:
        return "right" if score.verdict_correct else "wrong"
    if score.verdict_correct:
        return "right throughout" if score.first_vote_correct else "corrected"
    return "damaged" if score.first_vote_correct else "wrong throughout"


def is_agreed(score: Score) -> bool:
    """Say whether all generators gave equal answers in the first round; who gives none agrees with nobody."""
    answers = set(score.groups[0])
    return len(answers) == 1 and None not in answers
