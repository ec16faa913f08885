"""What is recorded of every debate of an evaluation: how right it was, and what it cost."""

from collections.abc import Iterable
from dataclasses import dataclass

from mada.debate.transcript import Debate
from mada.debate.verdict import vote
from mada.grading import Grader
from mada.problems import Problem

SCORES, TRANSCRIPTS = "scores", "transcripts"
"""The names of their records in a run."""


@dataclass(frozen=True, slots=True)
class Score:
    """One system on one problem with one seed.

    `accuracy` is the mean over the last round's answers (I2) and the last of `round_accuracies`; the votes of the first
    and the last round tell whether a debate corrected or damaged what its generators agreed on (E3). `answers` and
    `correct` have a row per round and a place per seat. The counts, `truncated` to `shortened`, are over all turns.
    """

    system: str
    benchmark: str
    seed: int
    problem: str
    accuracy: float
    vote_correct: bool
    first_vote_correct: bool
    tie: bool
    round_accuracies: tuple[float, ...]
    answers: tuple[tuple[str | None, ...], ...]
    correct: tuple[tuple[bool, ...], ...]
    generated_tokens: int
    prompt_tokens: int
    calls: int
    truncated: int
    unanswered: int
    shortened: int

    @property
    def rounds(self) -> int:
        """How many rounds were held."""
        return len(self.round_accuracies)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole debate as it was held, for people who want to read it; `reference` is the right answer."""

    system: str
    benchmark: str
    seed: int
    problem: str
    reference: str
    debate: Debate


async def score_debate(
    debate: Debate, *, system: str, benchmark: str, seed: int, problem: Problem, grader: Grader
) -> Score:
    """Grade every answer of a debate, and the votes of its first and its last round."""
    responses = [one.responses for one in debate.rounds]
    answers = tuple(tuple(response.answer for response in given) for given in responses)
    first = await vote(responses[:1], grader=grader)
    last = debate.verdict or await vote(responses, grader=grader)
    given = {answer for answers_of_round in answers for answer in answers_of_round} | {first.answer, last.answer}
    right = await _right(given, problem.answer, grader=grader)
    correct = tuple(tuple(answer in right for answer in answers_of_round) for answers_of_round in answers)
    round_accuracies = tuple(sum(verdicts) / len(verdicts) for verdicts in correct)
    turns = [turn for one in debate.rounds for turn in one.turns]
    return Score(
        system=system,
        benchmark=benchmark,
        seed=seed,
        problem=problem.id,
        accuracy=round_accuracies[-1],
        vote_correct=last.answer in right,
        first_vote_correct=first.answer in right,
        tie=last.tie,
        round_accuracies=round_accuracies,
        answers=answers,
        correct=correct,
        generated_tokens=debate.generated_tokens,
        prompt_tokens=debate.prompt_tokens,
        calls=len(turns),
        truncated=sum(turn.response.truncated for turn in turns),
        unanswered=sum(turn.response.answer is None for turn in turns),
        shortened=sum(turn.shortened_responses for turn in turns),
    )


async def _right(answers: Iterable[str | None], reference: str, *, grader: Grader) -> set[str | None]:
    """Return those answers that equal the reference; no answer never does."""
    spellings = [answer for answer in answers if answer is not None]
    grades = await grader.compare_async([(answer, reference) for answer in spellings])
    return {answer for answer, grade in zip(spellings, grades, strict=True) if grade.correct}
