"""What is recorded of every question that a system answers: answers, correctness, tokens; and the debate, packed."""

import base64
import json
import lzma
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from mada.debate.transcript import Debate
from mada.debate.verdict import Rule, apply_rule, decide, group_equal
from mada.grading import Grader
from mada.problems import Problem

_debates = TypeAdapter(Debate)


def pack_debate(debate: Debate) -> str:
    """Return a debate as one line of text; LZMA looks far enough back to store what prompts repeat only once."""
    plain = _debates.dump_python(debate, mode="json")
    content = json.dumps(plain, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(lzma.compress(content.encode("ascii"))).decode("ascii")


def unpack_debate(stored: object) -> object:
    """Return the plain values of a debate; those of an older mada are not packed, or are in another way."""
    if not isinstance(stored, str):
        return stored
    try:
        packed = base64.b64decode(stored, validate=True)
        if packed.startswith(b"\xfd7zXZ"):
            return json.loads(lzma.decompress(packed))
        return _with_prompts(json.loads(zlib.decompress(packed)))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"the debate is damaged ({error})") from error


def _with_prompts(plain: dict[str, Any]) -> dict[str, Any]:
    """Restore prompts that an older mada stored as text and places in earlier texts."""
    texts: list[str] = [plain["question"]]
    for turn in (turn for one in plain["rounds"] for turn in one["turns"]):
        parts = (part if isinstance(part, str) else texts[part[0]][part[1] : part[2]] for part in turn["prompt"])
        turn["prompt"] = "".join(parts)
        texts += [turn["prompt"], turn["response"]["text"]]
    return plain


SCORES, TRANSCRIPTS = "scores", "transcripts"
"""The names of their records in a run."""


@dataclass(frozen=True, slots=True)
class Score:
    """One system on one problem with one seed.

    The nested values have a row per round and a column per seat. `groups` numbers the answers: equal answers have equal
    numbers, in all rounds, and no answer has `None`; so votes of fewer voters and who took over whose answer can be
    told from the record alone. The votes of the first round and the system's verdict tell whether a debate corrected or
    damaged what its generators agreed on (E3).
    """

    system: str
    benchmark: str
    seed: int
    problem: str
    agents: tuple[tuple[str, ...], ...]
    answers: tuple[tuple[str | None, ...], ...]
    groups: tuple[tuple[int | None, ...], ...]
    correct: tuple[tuple[bool, ...], ...]
    verdict_correct: bool
    first_vote_correct: bool
    tie: bool
    tokens: tuple[tuple[int, ...], ...]
    """Generated tokens."""
    prompts: tuple[tuple[int, ...], ...]
    """Prompt tokens."""
    truncated: int
    """Replies cut off at the token limit."""
    shortened: int
    """Responses of others shortened for the window."""
    unfit: int = 0
    """Replies that were never given, because the question did not fit the window; they count as cut off too."""
    failed: int = 0
    """Replies that a server filtered, gave up, or failed to give; they have no answer."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.correct)

    @property
    def accuracy(self) -> float:
        """The share of right answers in the last round (I2)."""
        return self.accuracy_of_round(-1)

    def accuracy_of_round(self, index: int) -> float:
        """Return the share of right answers in a round, counted from 0."""
        return sum(self.correct[index]) / len(self.correct[index])

    @property
    def calls(self) -> int:
        """How often a model was asked."""
        return sum(map(len, self.answers))

    @property
    def generated_tokens(self) -> int:
        """Tokens sampled in the complete debate."""
        return sum(map(sum, self.tokens))

    @property
    def prompt_tokens(self) -> int:
        """Tokens read in the complete debate."""
        return sum(map(sum, self.prompts))

    @property
    def unanswered(self) -> int:
        """Replies without an answer."""
        return sum(answer is None for answers in self.answers for answer in answers)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A complete debate for readers; `reference` is the right answer.

    Records hold it packed (`pack_debate`); unpacked ones of older versions are read too.
    """

    system: str
    benchmark: str
    seed: int
    problem: str
    reference: str
    debate: Annotated[Debate, BeforeValidator(unpack_debate), PlainSerializer(pack_debate, when_used="json")]


async def score_debate(
    debate: Debate,
    *,
    system: str,
    benchmark: str,
    seed: int,
    problem: Problem,
    grader: Grader,
    rule: Rule = "vote",
) -> tuple[Score, Debate]:
    """Grade every answer of a debate and come to a verdict; the debate comes back with it."""
    responses = [one.responses for one in debate.rounds]
    answers = tuple(tuple(response.answer for response in given) for given in responses)
    spelled = list(dict.fromkeys(answer for given in answers for answer in given if answer is not None))
    classes = await group_equal(spelled, grader=grader)
    right = await _right(spelled, problem.answer, grader=grader)
    first, verdict = decide(answers[:1], classes), apply_rule(rule, responses, classes)
    numbers: dict[str, int] = {}
    for answer in spelled:
        numbers.setdefault(classes[answer], len(numbers))
    turns = [turn for one in debate.rounds for turn in one.turns]
    score = Score(
        system=system,
        benchmark=benchmark,
        seed=seed,
        problem=problem.id,
        agents=tuple(tuple(turn.agent for turn in one.turns) for one in debate.rounds),
        answers=answers,
        groups=tuple(
            tuple(None if answer is None else numbers[classes[answer]] for answer in given) for given in answers
        ),
        correct=tuple(tuple(answer in right for answer in given) for given in answers),
        verdict_correct=verdict.answer in right,
        first_vote_correct=first.answer in right,
        tie=verdict.tie,
        tokens=tuple(tuple(turn.response.token_count for turn in one.turns) for one in debate.rounds),
        prompts=tuple(tuple(turn.prompt_tokens for turn in one.turns) for one in debate.rounds),
        truncated=sum(turn.response.truncated for turn in turns),
        shortened=sum(turn.shortened_responses for turn in turns),
        unfit=sum(turn.prompt_tokens == 0 and turn.response.truncated for turn in turns),
        failed=sum(turn.response.stop == "failed" for turn in turns),
    )
    return score, debate.with_verdict(verdict)


async def _right(answers: Iterable[str], reference: str, *, grader: Grader) -> set[str | None]:
    """Return those answers that equal the reference."""
    spellings = list(answers)
    grades = await grader.compare_async([(answer, reference) for answer in spellings])
    return {answer for answer, grade in zip(spellings, grades, strict=True) if grade.correct}
