"""One debate as JSON: what was asked, what everybody said and was told, and what came of it.

Prompts are most of a transcript, and most of a prompt is what others said in it before. So the texts that were said
(the question first, then every response in order) are kept once, each in five pieces:

    space, thinking, space, conclusion, space

and a prompt is a list of parts: either plain text, or `[text, first, end]` for those pieces of an earlier text.
Joining the parts gives the prompt exactly, whatever is in it, because every reference was found in it letter by letter.
Formulas are given for conclusions and answers; thinking is shown as it was written.
"""

from collections.abc import Iterator, Mapping

from mada.evaluation.scores import Score, Transcript
from mada.report.page.mathematics import Tree, answer_tree, formulas_of

THINKING_OPENS, THINKING_ENDS = "<think>", "</think>"
SHORTEST_REFERENCE = 24
"""Shorter texts cost no more than a reference to them."""

Reference = tuple[int, int, int]
Part = str | Reference
Pieces = tuple[str, str, str, str, str]


def body_of(transcript: Transcript, score: Score) -> dict[str, object]:
    """Return a debate as plain values; who was right is the score's to say."""
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
    return {
        "reference": transcript.reference,
        "said": said,
        "formulas": [list(formulas_of(pieces[3])) for pieces in said],
        "answers": _answers(transcript),
        "prompts": [parts for _, parts in prompts.values()],
        "rounds": rounds,
        "verdict": _verdict(transcript, score),
    }


def pieces_of(text: str) -> Pieces:
    """Split a text at its last thinking and the space around it; all of one that never stops thinking is thinking."""
    core = text.strip()
    lead = text[: len(text) - len(text.lstrip())]
    trail = text[len(lead) + len(core) :]
    thought, mark, rest = core.rpartition(THINKING_ENDS)
    if THINKING_OPENS in rest:
        return lead, core, "", "", trail
    conclusion = rest.lstrip()
    return lead, thought + mark, rest[: len(rest) - len(conclusion)], conclusion, trail


def parts_of(prompt: str, known: Mapping[str, Reference]) -> list[Part]:
    """Return a prompt with the texts that are known as references to them, the longest first."""
    parts: list[Part] = [prompt]
    for text in sorted(known, key=len, reverse=True):
        parts = [found for part in parts for found in _replaced(part, text, known[text])]
    return parts


def _replaced(part: Part, text: str, reference: Reference) -> Iterator[Part]:
    if not isinstance(part, str):
        yield part
        return
    for place, between in enumerate(part.split(text)):
        if place:
            yield reference
        if between:
            yield between


def _remember(known: dict[str, Reference], number: int, pieces: Pieces) -> None:
    """Add what of a text others may be shown: all of it, and what follows its thinking."""
    for first, end in ((1, 4), (3, 4)):
        text = "".join(pieces[first:end])
        if len(text) >= SHORTEST_REFERENCE:
            known.setdefault(text, (number, first, end))


def _answers(transcript: Transcript) -> dict[str, Tree]:
    debate = transcript.debate
    answers = {response.answer for one in debate.rounds for response in one.responses} | {transcript.reference}
    if debate.verdict:
        answers |= {vote.answer for vote in debate.verdict.votes}
    return {one: tree for one in sorted(filter(None, answers)) if (tree := answer_tree(one)) is not None}


def _verdict(transcript: Transcript, score: Score) -> dict[str, object]:
    verdict = transcript.debate.verdict
    return {
        "right": score.verdict_correct,
        "answer": verdict.answer if verdict else None,
        "votes": [(one.answer, one.count) for one in verdict.votes] if verdict else [],
        "tie": score.tie,
        "unanswered": verdict.unanswered if verdict else 0,
    }
