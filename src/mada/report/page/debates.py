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
import tempfile
import zlib
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, get_args

from mada.atomic import describe_os_errors
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
Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Entry:
    """A debate's line in the index; `order` is by run, system, benchmark, problem, seed."""

    order: tuple[int, int, int, tuple[tuple[int, str], ...], int]
    run: str
    system: tuple[str, str]
    """Name and title."""
    benchmark: str
    seed: int
    problem: str
    question: str
    outcome: Outcome
    is_agreed: bool
    is_tie: bool
    agents: tuple[tuple[str, ...], ...]
    right: str
    """A digit per seat, round after round: 1 for a right answer."""
    answers: tuple[str | None, ...]
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Packed:
    """Debates ready for a page; `chunks` are base64 of gzip of JSON, made while they are iterated over."""

    index: Mapping[str, object]
    count: int
    chunks: Iterable[str]
    example: Entry | None = None
    """A debate that corrected its generators, of the first system that has one."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A debate whose body is in the temporary file."""

    entry: Entry
    offset: int
    length: int


@contextmanager
def packed(sources: Sequence[Source], *, page: Path | None = None) -> Generator[Packed]:
    """Yield the debates of runs, sorted by run, system, benchmark, problem and seed, for as long as the block lasts.

    Trained debates come first, and of them the reference; else the order is that of the plan. The same runs give the
    same bytes, in whichever order their debates were recorded. Bodies wait beside the page, and a full disk is a
    RunError about the page; without a page they wait in the system's temporary folder.
    """
    with describe_os_errors(page) if page else nullcontext(), tempfile.TemporaryFile(dir=page and page.parent) as file:
        waiting = [
            _Waiting(entry, *_put(file, body))
            for number, source in enumerate(sources)
            for entry, body in _debates(source, number)
        ]
        waiting.sort(key=lambda one: one.entry.order)
        entries = [one.entry for one in waiting]
        yield Packed(index_of(entries, chunk=CHUNK), len(entries), _chunks(file, waiting), example_of(entries))


def example_of(entries: Iterable[Entry]) -> Entry | None:
    """Return the first corrected debate, of the first system that has one, and preferably without missing answers."""
    corrected = (entry for entry in entries if entry.outcome == "corrected")
    return min(corrected, key=lambda entry: (entry.order[:2], None in entry.answers), default=None)


def _chunks(file: BinaryIO, waiting: Sequence[_Waiting]) -> Iterator[str]:
    for start in range(0, len(waiting), CHUNK):
        bodies: list[bytes] = []
        for one in waiting[start : start + CHUNK]:
            file.seek(one.offset)
            bodies.append(zlib.decompress(file.read(one.length)))
        yield base64.b64encode(gzip.compress(b"[%b]" % b",".join(bodies), mtime=0)).decode("ascii")


def _put(file: BinaryIO, body: dict[str, object]) -> tuple[int, int]:
    # ASCII with escapes, so that even half a surrogate pair reaches the page as it was.
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    offset = file.tell()
    return offset, file.write(zlib.compress(text.encode("ascii"), level=1))


def _debates(source: Source, number: int) -> Iterator[tuple[Entry, dict[str, object]]]:
    """Yield each debate that has a score once; a debate without one is not part of the evaluation."""
    grid = source.grid
    if grid is None:
        return
    ordered = sorted(grid.plan.evaluated_systems, key=grid.plan.reading_order)
    systems = {system.name: (rank, system.title) for rank, system in enumerate(ordered)}
    benchmarks = {benchmark: rank for rank, benchmark in enumerate(grid.problems)}
    seen: set[ScoreKey] = set()
    for transcript in source.transcripts():
        key = score_key(transcript)
        if key in grid.scores and key not in seen:
            seen.add(key)
            system, benchmark = systems[transcript.system], benchmarks[transcript.benchmark]
            score = grid.scores[key]
            entry = entry_of(transcript, score, run=(number, source.title), system=system, benchmark=benchmark)
            yield entry, body_of(transcript, score)


def entry_of(
    transcript: Transcript, score: Score, *, run: tuple[int, str], system: tuple[int, str], benchmark: int
) -> Entry:
    """Return the line of a debate; run and system come with their ranks, the benchmark as its rank."""
    debate = transcript.debate
    return Entry(
        order=(run[0], system[0], benchmark, natural(transcript.problem), transcript.seed),
        run=run[1],
        system=(transcript.system, system[1]),
        benchmark=transcript.benchmark,
        seed=transcript.seed,
        problem=transcript.problem,
        question=" ".join(debate.question.split())[:LONGEST_QUESTION],
        outcome=outcome_of(score),
        is_agreed=is_agreed(score),
        is_tie=score.tie,
        agents=tuple(tuple(turn.agent for turn in one.turns) for one in debate.rounds),
        right="".join("1" if right else "0" for verdicts in score.correct for right in verdicts),
        answers=tuple(_beginning(response.answer) for one in debate.rounds for response in one.responses),
        verdict=_beginning(debate.verdict.answer) if debate.verdict else None,
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


def _beginning(answer: str | None) -> str | None:
    return None if answer is None else answer[:LONGEST_ANSWER]


def index_of(entries: Sequence[Entry], *, chunk: int) -> dict[str, object]:
    """Return the index of debates in this order, of which every `chunk` have their bodies together."""
    runs: dict[str, int] = {}
    systems: dict[tuple[str, str], int] = {}
    benchmarks: dict[str, int] = {}
    problems: dict[tuple[int, str, str], int] = {}
    agents: dict[str, int] = {}
    seatings: dict[tuple[tuple[int, ...], ...], int] = {}
    answers: dict[str, int] = {}

    def problem(one: Entry) -> int:
        return _number(problems, (_number(benchmarks, one.benchmark), one.problem, one.question))

    def seating(one: Entry) -> int:
        return _number(seatings, tuple(tuple(_number(agents, agent) for agent in seats) for seats in one.agents))

    def answer(text: str | None) -> int | None:
        return None if text is None else _number(answers, text)

    columns = {
        "run": [_number(runs, one.run) for one in entries],
        "system": [_number(systems, one.system) for one in entries],
        "problem": [problem(one) for one in entries],
        "seed": [one.seed for one in entries],
        "outcome": [OUTCOMES.index(one.outcome) for one in entries],
        "agreed": [int(one.is_agreed) for one in entries],
        "tie": [int(one.is_tie) for one in entries],
        "seating": [seating(one) for one in entries],
        "right": [one.right for one in entries],
        "answers": [[answer(text) for text in one.answers] for one in entries],
        "verdict": [answer(one.verdict) for one in entries],
    }
    named: dict[str, dict[Any, int]] = {
        "runs": runs,
        "systems": systems,
        "benchmarks": benchmarks,
        "problems": problems,
        "agents": agents,
    }
    named |= {"seatings": seatings, "answers": answers}
    values = {name: list(numbers) for name, numbers in named.items()}
    return {"count": len(entries), "chunk": chunk, "outcomes": OUTCOMES, **values, "columns": columns}


def _number(numbers: dict[Value, int], value: Value) -> int:
    """Return a value's number; values are numbered as they come."""
    return numbers.setdefault(value, len(numbers))


def body_of(transcript: Transcript, score: Score) -> dict[str, object]:
    """Return a debate as JSON values; which answers are right comes from the score."""
    debate = transcript.debate
    said = [pieces_of(debate.question)]
    known: dict[str, Reference] = {}
    _remember(known, 0, said[0])
    prompts: dict[str, tuple[int, list[Part]]] = {}
    rounds: list[dict[str, object]] = []
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
            _remember(known, len(said) - 1, said[-1])
    verdict = debate.verdict
    votes = verdict.votes if verdict else ()
    answers = {response.answer for one in debate.rounds for response in one.responses}
    answers |= {transcript.reference, *(vote.answer for vote in votes)}
    return {
        "reference": transcript.reference,
        "said": said,
        "formulas": [list(formulas_of(pieces[3])) for pieces in said],
        "answers": {one: tree for one in sorted(filter(None, answers)) if (tree := answer_tree(one)) is not None},
        "prompts": [parts for _, parts in prompts.values()],
        "rounds": rounds,
        "verdict": {
            "right": score.verdict_correct,
            "answer": verdict.answer if verdict else None,
            "votes": [(vote.answer, vote.count) for vote in votes],
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
        parts = [found for part in parts for found in _replaced(part, text, known[text])]
    return parts


def _replaced(part: Part, text: str, reference: Reference) -> Iterator[Part]:
    if not isinstance(part, str):
        yield part
        return
    for index, between in enumerate(part.split(text)):
        if index:
            yield reference
        if between:
            yield between


def _remember(known: dict[str, Reference], number: int, pieces: Pieces) -> None:
    """Add what other agents may be shown of a text: all of it, and what follows its thinking."""
    for first, end in ((1, 4), (3, 4)):
        text = "".join(pieces[first:end])
        if len(text) >= SHORTEST_REFERENCE:
            known.setdefault(text, (number, first, end))
