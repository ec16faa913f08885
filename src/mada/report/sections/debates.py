"""Debates that a person should read: one that corrected its generators, one that misled them, one that never got there.

Numbers say how often something happens; only the text says why.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from mada.evaluation.analysis import shown_systems
from mada.evaluation.grid import MEASURES, Grid, Place, place_of
from mada.evaluation.scores import TRANSCRIPTS, Score, Transcript
from mada.report.document import Block, Code, Heading, Listing, Paragraph, Section, Strong, paragraph
from mada.report.reading import Source

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


def debates_section(source: Source) -> Section | None:
    """Return one debate of each outcome, as far as they were kept; None without any."""
    grid = source.grid
    if grid is None:
        return None
    examples = pick_examples(source.transcripts(), grid.scores, systems=_ranked(grid))
    if not examples:
        return None
    where = paragraph("All that were kept are in ", Code(f"records/{TRANSCRIPTS}.jsonl"), ", with the prompts.")
    shown = (block for outcome, example in examples.items() for block in _example(outcome, example))
    return Section("debates-to-read", "Debates to read", (where, *shown), only="text")


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


def shortened(text: str) -> str:
    """Leave out the middle of a text too long for a page, and say how much."""
    left_out = len(text) - LONGEST_TEXT
    if left_out <= 0:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[… {left_out:,} characters left out …]\n{text[-half:]}"


def _ranked(grid: Grid) -> list[str]:
    """Return the systems' names: trained debates first, of them the reference, then those with most right verdicts."""
    shares = {system: grid.average(system, MEASURES["verdict"]) for system in shown_systems(grid)}
    ranked = sorted(shares, key=lambda system: (*grid.plan.reading_order(system), -shares[system]))
    return [system.name for system in ranked]


def _example(outcome: Outcome, example: Example) -> Iterator[Block]:
    """Yield a debate: the question, then every response with its answer, round by round."""
    transcript, score = example.transcript, example.score
    yield Heading(DESCRIPTIONS[outcome])
    yield paragraph(
        "System ",
        Code(transcript.system),
        f" on {transcript.benchmark}, problem ",
        Code(transcript.problem),
        f", seed {transcript.seed}. The right answer is ",
        Code(transcript.reference),
        ".",
    )
    yield Listing(shortened(transcript.debate.question))
    for one, verdicts in zip(transcript.debate.rounds, score.correct, strict=True):
        yield Heading(f"Round {one.number}", level=2)
        for turn, is_right in zip(one.turns, verdicts, strict=True):
            response = turn.response
            end = ", cut off at the token limit" if response.truncated else ""
            said = f"{'right' if is_right else 'wrong'}; {response.token_count:,} tokens{end}"
            yield _answer(turn.agent, response.answer, said)
            yield Listing(shortened(response.text))


def _answer(agent: str, answer: str | None, said: str) -> Paragraph:
    if answer is None:
        return paragraph(Strong(agent), f": no answer, {said}")
    return paragraph(Strong(agent), ": answer ", Code(answer), f", {said}")
