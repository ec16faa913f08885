"""All debates of some runs, packed for a page: an index that is there at once, and bodies in compressed chunks.

Most of a transcript are prompts, and most of a prompt is earlier responses. So texts (the question first, then every
response in order) are kept once, each in five pieces: space, thinking, space, conclusion, space. A prompt is a list of
parts: plain text, or `[text, first, end]` for those pieces of an earlier text; joined they are the exact prompt.
Formulas are given for conclusions and answers; thinking is shown as it was written.

The index has one list per field, with numbers for whatever repeats, so that 10,000 debates are read in an instant.
Transcripts come in any order and may be more than memory holds, so bodies wait in a temporary file.
"""

import base64
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal, get_args

from mada.evaluation.grid import ScoreKey, score_key
from mada.evaluation.scores import Score, Transcript
from mada.report.page.mathematics import answer_tree, formulas_of
from mada.report.reading import Source

CHUNK = 50
"""Debates whose bodies are compressed together: few enough to open at once, enough to share their words."""
LONGEST_QUESTION, LONGEST_ANSWER = 1_000, 200
"""The index holds the beginnings of longer ones."""
THINKING_OPENS, THINKING_ENDS = "<think>", "</think>"
SHORTEST_REFERENCE = 24
"""Shorter texts cost no more than a reference to them."""

Outcome = Literal["corrected", "damaged", "right throughout", "wrong throughout", "right", "wrong"]
"""First vote and verdict; with a single round there is only the verdict."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

Reference = tuple[int, int, int]
Part = str | Reference
Pieces = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A debate's line in the index; `order` is by run, system, benchmark, problem, seed.

    Its body is in the temporary file, from `offset` on.
    """

    order: tuple[int, int, int, tuple[tuple[int, str], ...], int]
    run: str
    title: str
    """The system's."""
    question: str
    verdict: str | None
    score: Score
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Packed:
    """Debates ready for a page; `chunks` are base64 of gzip of JSON, made while they are iterated over."""

    index: Mapping[str, object]
    count: int
    chunks: Iterable[str]
    example: Entry | None = None
    """A debate that corrected its generators, of the first system that has one; all of its answers, if possible."""


def pack_debates(sources: Sequence[Source], file: BinaryIO) -> Packed:
    """Return the debates of runs, sorted by run, system, benchmark, problem and seed; their bodies wait in a file.

    Trained debates come first, and of them the reference; else the order is that of the plan. The same runs give the
    same bytes, in whichever order their debates were recorded.
    """
    entries = [entry for number, source in enumerate(sources) for entry in _entries(source, number, file)]
    entries.sort(key=lambda one: one.order)
    corrected = (one for one in entries if outcome_of(one.score) == "corrected")
    example = min(corrected, key=lambda one: (one.order[:2], one.score.unanswered > 0), default=None)
    return Packed(index_of(entries), len(entries), _chunks(entries, file), example)


def _chunks(entries: Sequence[Entry], file: BinaryIO) -> Iterator[str]:
    for start in range(0, len(entries), CHUNK):
        bodies: list[bytes] = []
        for one in entries[start : start + CHUNK]:
            file.seek(one.offset)
            bodies.append(zlib.decompress(file.read(one.length)))
        yield base64.b64encode(gzip.compress(b"[%b]" % b",".join(bodies), mtime=0)).decode("ascii")


def _entries(source: Source, number: int, file: BinaryIO) -> Iterator[Entry]:
    """Yield each debate that has a score once; a debate without one is not part of the evaluation."""
    grid = source.grid
    if grid is None:
        return
    ordered = sorted(grid.plan.evaluated_systems, key=grid.plan.reading_order)
    systems = {system.name: (rank, system.title) for rank, system in enumerate(ordered)}
    benchmarks = {benchmark: rank for rank, benchmark in enumerate(grid.problems)}
    seen: set[ScoreKey] = set()
    for transcript in source.transcripts():
        key, debate = score_key(transcript), transcript.debate
        if key not in grid.scores or key in seen:
            continue
        seen.add(key)
        rank, title = systems[transcript.system]
        # ASCII with escapes, so that even half a surrogate pair reaches the page as it was.
        text = json.dumps(body_of(transcript, grid.scores[key]), separators=(",", ":"), allow_nan=False)
        yield Entry(
            order=(number, rank, benchmarks[transcript.benchmark], natural(transcript.problem), transcript.seed),
            run=source.title,
            title=title,
            question=" ".join(debate.question.split())[:LONGEST_QUESTION],
            verdict=debate.verdict.answer if debate.verdict else None,
            score=grid.scores[key],
            offset=file.tell(),
            length=file.write(zlib.compress(text.encode("ascii"), level=1)),
        )


def outcome_of(score: Score) -> Outcome:
    """Return what became of a debate."""
    if score.rounds < 2:
        return "right" if score.verdict_correct else "wrong"
    if score.verdict_correct:
        return "right throughout" if score.first_vote_correct else "corrected"
    return "damaged" if score.first_vote_correct else "wrong throughout"


def is_agreed(score: Score) -> bool:
    """Say whether all generators gave equal answers in the first round; no answer agrees with nothing."""
    answers = set(score.groups[0])
    return len(answers) == 1 and None not in answers


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts numbers within names by their size: `easy/9` comes before `easy/10`."""
    # Odd indices are digits; a number of any length compares by its length first, so none needs to become an int.
    parts = re.split("([0-9]+)", name)
    return tuple(
        (len(part.lstrip("0")), part.lstrip("0") + part) if index % 2 else (0, part) for index, part in enumerate(parts)
    )


def index_of(entries: Sequence[Entry]) -> dict[str, object]:
    """Return the index of debates in this order; values that repeat are listed once, and columns have their numbers."""
    names = ("runs", "systems", "benchmarks", "problems", "agents", "seatings", "answers")
    values: dict[str, dict[object, int]] = {name: {} for name in names}

    def number(name: str, value: object) -> int:
        return values[name].setdefault(value, len(values[name]))

    def problem(one: Entry) -> int:
        return number("problems", (number("benchmarks", one.score.benchmark), one.score.problem, one.question))

    def seating(one: Entry) -> int:
        return number("seatings", tuple(tuple(number("agents", who) for who in seats) for seats in one.score.agents))

    def answer(text: str | None) -> int | None:
        return None if text is None else number("answers", text[:LONGEST_ANSWER])

    columns = {
        "run": [number("runs", one.run) for one in entries],
        "system": [number("systems", (one.score.system, one.title)) for one in entries],
        "problem": [problem(one) for one in entries],
        "seed": [one.score.seed for one in entries],
        "outcome": [OUTCOMES.index(outcome_of(one.score)) for one in entries],
        "agreed": [int(is_agreed(one.score)) for one in entries],
        "tie": [int(one.score.tie) for one in entries],
        "seating": [seating(one) for one in entries],
        # A digit per seat, round after round: 1 for a right answer.
        "right": ["".join(str(int(right)) for given in one.score.correct for right in given) for one in entries],
        "answers": [[answer(text) for given in one.score.answers for text in given] for one in entries],
        "verdict": [answer(one.verdict) for one in entries],
    }
    listed = {name: list(numbers) for name, numbers in values.items()}
    return {"count": len(entries), "chunk": CHUNK, "outcomes": OUTCOMES, **listed, "columns": columns}


def body_of(transcript: Transcript, score: Score) -> dict[str, object]:
    """Return a debate as JSON values; which answers are right comes from the score."""
    debate, verdict = transcript.debate, transcript.debate.verdict
    said = [pieces_of(debate.question)]
    known: dict[str, Reference] = {}
    prompts: dict[str, tuple[int, list[Part]]] = {}
    rounds: list[dict[str, object]] = []
    answers = {transcript.reference, *(vote.answer for vote in (verdict.votes if verdict else ()))}
    _remember(known, 0, said[0])
    for one, verdicts in zip(debate.rounds, score.correct, strict=True):
        turns: list[dict[str, object]] = []
        for turn, is_right in zip(one.turns, verdicts, strict=True):
            if turn.prompt not in prompts:
                prompts[turn.prompt] = len(prompts), parts_of(turn.prompt, known)
            turns.append(
                {
                    "agent": turn.agent,
                    "answer": turn.response.answer,
                    "right": is_right,
                    "tokens": turn.response.token_count,
                    "stop": turn.response.stop,
                    "prompt": prompts[turn.prompt][0],
                    "promptTokens": turn.prompt_tokens,
                    "shortened": turn.shortened_responses,
                    "leftOut": turn.characters_left_out,
                }
            )
        rounds.append({"role": one.role, "turns": turns})
        for response in one.responses:
            said.append(pieces_of(response.text))
            answers.add(response.answer or "")
            _remember(known, len(said) - 1, said[-1])
    return {
        "reference": transcript.reference,
        "said": said,
        "formulas": [list(formulas_of(pieces[3])) for pieces in said],
        "answers": {one: tree for one in sorted(answers) if (tree := answer_tree(one)) is not None},
        "prompts": [parts for _, parts in prompts.values()],
        "rounds": rounds,
        "verdict": {
            "right": score.verdict_correct,
            "answer": verdict.answer if verdict else None,
            "votes": [(vote.answer, vote.count) for vote in verdict.votes] if verdict else [],
            "tie": score.tie,
            "unanswered": verdict.unanswered if verdict else 0,
        },
    }


def pieces_of(text: str) -> Pieces:
    """Split a text at its last thinking and the space around it; without an end of thinking all of it is thinking."""
    core = text.strip()
    lead = text[: len(text) - len(text.lstrip())]
    trail = text[len(lead) + len(core) :]
    thought, mark, rest = core.rpartition(THINKING_ENDS)
    if THINKING_OPENS in rest:
        return lead, core, "", "", trail
    conclusion = rest.lstrip()
    return lead, thought + mark, rest[: len(rest) - len(conclusion)], conclusion, trail


def parts_of(prompt: str, known: Mapping[str, Reference]) -> list[Part]:
    """Return a prompt with references in place of the texts that are known, the longest first."""
    parts: list[Part] = [prompt]
    for text in sorted(known, key=len, reverse=True):
        parts = [piece for part in parts for piece in _split(part, text, known[text]) if piece]
    return parts


def _split(part: Part, text: str, reference: Reference) -> list[Part]:
    if not isinstance(part, str):
        return [part]
    return [piece for between in part.split(text) for piece in (reference, between)][1:]


def _remember(known: dict[str, Reference], number: int, pieces: Pieces) -> None:
    """Add what other agents may be shown of a text: all of it, and what follows its thinking."""
    for first, end in ((1, 4), (3, 4)):
        text = "".join(pieces[first:end])
        if len(text) >= SHORTEST_REFERENCE:
            known.setdefault(text, (number, first, end))
