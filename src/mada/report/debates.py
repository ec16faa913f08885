"""Debates that a person should read: one that corrected its generators, one that misled them, one that never got there.

Numbers say how often something happens; only the text says why.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from mada.evaluation.grid import Place, place_of
from mada.evaluation.scores import Score, Transcript
from mada.report.markdown import code, escaped, fenced

Outcome = Literal["corrected", "damaged", "failed"]

DESCRIPTIONS: dict[Outcome, str] = {
    "corrected": "Corrected: the first vote is wrong, the last right",
    "damaged": "Damaged: the first vote is right, the last wrong",
    "failed": "Failed: no vote is right",
}
LONGEST_TEXT = 3_000


@dataclass(frozen=True, slots=True)
class Example:
    """A debate and its score."""

    transcript: Transcript
    score: Score


def outcome_of(score: Score) -> Outcome | None:
    """Say what the rounds after the first did; None for a debate that was right throughout, or had one round."""
    if score.rounds < 2:
        return None
    if score.verdict_correct:
        return None if score.first_vote_correct else "corrected"
    return "damaged" if score.first_vote_correct else "failed"


def pick_examples(
    transcripts: Iterable[Transcript], scores: Mapping[Place, Score], *, systems: Iterable[str]
) -> dict[Outcome, Example]:
    """Pick one debate of each outcome, of the first of `systems` that has one.

    Debates in which everybody came to an end and gave an answer are preferred: they show reasoning, not limits. Among
    equals the choice is by seed and name, so that it is always the same.
    """
    ranks = {name: rank for rank, name in enumerate(systems)}
    found: dict[Outcome, tuple[tuple[object, ...], Example]] = {}
    for transcript in transcripts:
        score = scores.get(place_of(transcript))
        outcome = outcome_of(score) if score else None
        if score is None or outcome is None or score.system not in ranks:
            continue
        incomplete = score.truncated + score.unanswered > 0
        key = (ranks[score.system], incomplete, score.seed, score.benchmark, score.problem)
        if outcome not in found or key < found[outcome][0]:
            found[outcome] = (key, Example(transcript, score))
    return {outcome: found[outcome][1] for outcome in get_args(Outcome) if outcome in found}


def example_markdown(outcome: Outcome, example: Example) -> str:
    """Return a debate as Markdown: the question, then every response with its answer, round by round."""
    transcript, score = example.transcript, example.score
    where = f"{escaped(transcript.benchmark)}, problem {code(transcript.problem)}, seed {transcript.seed}"
    parts = [
        f"### {DESCRIPTIONS[outcome]}",
        f"System {code(transcript.system)} on {where}. The right answer is {code(transcript.reference)}.",
        fenced(shortened(transcript.debate.question)),
    ]
    for one, verdicts in zip(transcript.debate.rounds, score.correct, strict=True):
        parts.append(f"#### Round {one.number}")
        for turn, is_right in zip(one.turns, verdicts, strict=True):
            response = turn.response
            answer = "no answer" if response.answer is None else f"answer {code(response.answer)}"
            end = ", cut off at the token limit" if response.truncated else ""
            verdict = "right" if is_right else "wrong"
            parts.append(f"**{escaped(turn.agent)}**: {answer}, {verdict}; {response.token_count:,} tokens{end}")
            parts.append(fenced(shortened(response.text)))
    return "\n\n".join(parts)


def shortened(text: str) -> str:
    """Leave out the middle of a text too long for a page, and say how much."""
    left_out = len(text) - LONGEST_TEXT
    if left_out <= 0:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"
