"""What is sent back: OpenAI's replies and chunks, the field `mada`, and the debates that the page shows."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from mada.debate.transcript import Debate, Turn, Verdict
from mada.debate.verdict import group_equal
from mada.grading import Grader
from mada.grading.extraction import THINKING_OPENS
from mada.report.page.mathematics import answer_html, text_html
from mada.serve.teams import Catalogue, ServedAgent, ServedTeam

if TYPE_CHECKING:
    from mada.serve.store import HeldDebate
    from mada.serve.streams import Choice, LiveDebate

Json = dict[str, Any]


# --- what OpenAI's protocol has


class Envelope:
    """What all chunks of an answer have in common."""

    def __init__(self, model: str, answer_id: str, kind: str) -> None:
        self._common = {"id": answer_id, "created": int(time.time()), "model": model}
        self._kind = kind

    def reply(self, choices: Sequence[Json], usage: tuple[int, int]) -> Json:
        """Return a whole answer."""
        return {**self._common, "object": self._kind, "choices": list(choices), "usage": _usage_json(*usage)}

    def chunk(self, index: int, delta: Json, **fields: Any) -> Json:
        """Return a piece of a chat."""
        choice = {"index": index, "delta": delta, "finish_reason": None, **fields}
        return {**self._common, "object": "chat.completion.chunk", "choices": [choice]}

    def text_chunk(self, index: int, text: str, **fields: Any) -> Json:
        """Return a piece of a completion."""
        choice = {"index": index, "text": text, "logprobs": None, "finish_reason": None, **fields}
        return {**self._common, "object": self._kind, "choices": [choice]}

    def events(self, events: Sequence[Json]) -> Json:
        """Return events of a debate, for who asked for them."""
        return {**self._common, "object": "chat.completion.chunk", "choices": [], "mada": {"events": list(events)}}

    def usage(self, usage: tuple[int, int]) -> Json:
        """Return what the request took, as the last chunk."""
        kind = "chat.completion.chunk" if self._kind == "chat.completion" else self._kind
        return {**self._common, "object": kind, "choices": [], "usage": _usage_json(*usage)}


def _usage_json(prompt_tokens: int, tokens: int) -> Json:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}


def model_json(catalogue: Catalogue, name: str) -> Json:
    """Return an entry of `/v1/models`."""
    found = catalogue.find(name)
    is_base = isinstance(found, ServedAgent) and found.team is None
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "mada",
        "root": found.name,
        "parent": None if is_base else found.model.name,
        "max_model_len": found.model.loaded.window,
    }


def team_json(team: ServedTeam) -> Json:
    """Return a team as the page lists it."""
    loaded = team.model.loaded
    settings = team.spec.settings
    return {
        "name": team.name,
        "model": team.model.name,
        "trained": bool(team.adapters),
        "generators": list(team.spec.generators),
        "critics": list(team.spec.critics),
        "rounds": settings.rounds,
        "max_tokens": settings.sampling(loaded.chat, window=loaded.window).max_tokens,
        "window": loaded.window,
    }


def logprobs_json(choice: "Choice", tokenizer: Any, *, is_chat: bool, since: int) -> Json | None:
    """Return the log-probabilities of the sampled tokens; `None` where the engine gives none."""
    if len(choice.log_probs) < len(choice.token_ids):
        return None
    log_probs = list(choice.log_probs[since : len(choice.token_ids)])
    texts = [str(tokenizer.decode([token])) for token in choice.token_ids[since:]]
    if is_chat:
        content = [
            {"token": text, "logprob": value, "bytes": list(text.encode()), "top_logprobs": []}
            for text, value in zip(texts, log_probs, strict=True)
        ]
        return {"content": content, "refusal": None}
    offsets = [0] * len(texts)
    for index in range(1, len(texts)):
        offsets[index] = offsets[index - 1] + len(texts[index - 1])
    top = [{text: value} for text, value in zip(texts, log_probs, strict=True)]
    return {"tokens": texts, "token_logprobs": log_probs, "top_logprobs": top, "text_offset": offsets}


# --- what only a debate has


def verdict_text(debate: Debate | None, stops: Sequence[str]) -> str:
    """Return the message of a debate: its verdict, written as its agents write theirs.

    It ends without a period: harnesses look for the last number, and some, lm-eval's GSM8K among them, find `$.`.
    """
    assert debate is not None
    answer = debate.verdict.answer if debate.verdict is not None else None
    text = "No agent gave a final answer." if answer is None else f"The final answer is $\\boxed{{{answer}}}$"
    ends = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    return text[: min(ends, default=len(text))]


def reasoning_of(debate: Debate | None) -> str:
    """Return what was said in a debate as one text, as a stream gives it piece by piece."""
    assert debate is not None
    text = ReasoningText()
    parts: list[str] = []
    for one in debate.rounds:
        parts.append(text.add({"type": "round", "round": one.number, "agents": [turn.agent for turn in one.turns]}))
        parts += [
            text.add({"type": "turn", **turn_json(turn, number=one.number, index=index)})
            for index, turn in enumerate(one.turns)
        ]
    return "".join(parts)


def mada_json(live: "LiveDebate", debate_id: str) -> Json:
    """Return the field `mada` of a choice: rounds, answers, votes, and where the debate can be read again."""
    debate = live.debate
    assert debate is not None
    assert debate.verdict is not None
    verdict = debate.verdict
    return {
        "id": debate_id,
        "url": f"/debate/{debate_id}" if live.is_kept else None,
        "seed": live.seed,
        "seconds": round(live.seconds, 3),
        "rounds": [
            {
                "number": one.number,
                "role": one.role,
                "turns": [
                    {
                        "agent": turn.agent,
                        "answer": turn.response.answer,
                        "tokens": turn.response.token_count,
                        "truncated": turn.response.truncated,
                    }
                    for turn in one.turns
                ],
            }
            for one in debate.rounds
        ],
        "verdict": asdict(verdict),
    }


class ReasoningText:
    """A debate's turns as one text, in the order of the agents: a turn waits until those before it have ended."""

    def __init__(self) -> None:
        self._round = 0
        self._agents: list[str] = []
        self._texts: list[str] = []
        self._ended: list[bool] = []
        self._at = self._written = 0

    def add(self, event: Mapping[str, Any]) -> str:
        """Return what an event adds to the text."""
        if event["type"] == "round":
            self._round, self._agents, self._at, self._written = event["round"], event["agents"], 0, 0
            self._texts, self._ended = [""] * len(self._agents), [False] * len(self._agents)
        elif event["type"] == "delta":
            self._texts[event["index"]] += event["text"]
        elif event["type"] == "turn":
            self._end(event["index"], event["text"])
        return self._text_that_follows()

    def _end(self, index: int, text: str) -> None:
        said = self._texts[index]
        # Where the prompt opens the thinking, the whole text begins with that, and the tokens do not.
        if not text.startswith(said):
            text = text.removeprefix(f"{THINKING_OPENS}\n")
        if text.startswith(said):
            self._texts[index] = text
        self._ended[index] = True

    def _text_that_follows(self) -> str:
        added = ""
        while self._at < len(self._texts):
            text = self._texts[self._at]
            if not self._written and (text or self._ended[self._at]):
                added += f"[round {self._round}, {self._agents[self._at]}]\n"
            added += text[self._written :]
            self._written = len(text)
            if not self._ended[self._at]:
                break
            added += "\n\n"
            self._at, self._written = self._at + 1, 0
        return added


@dataclass
class AnswerGroups:
    """Which answers of a debate are equal, numbered by first appearance."""

    grader: Grader
    _classes: dict[str, str] = field(default_factory=dict[str, str])
    _numbers: dict[str, int] = field(default_factory=dict[str, int])

    async def number(self, answer: str | None) -> int | None:
        """Return the number of an answer's group."""
        if answer is None:
            return None
        if answer not in self._classes:
            self._classes = await group_equal([answer], grader=self.grader, known=self._classes)
        return self._numbers.setdefault(self._classes[answer], len(self._numbers))


def turn_json(turn: Turn, *, number: int, index: int) -> Json:
    """Return a turn as the page and the store's readers get it, but for what `with_html` adds."""
    response = turn.response
    return {
        "round": number,
        "index": index,
        "agent": turn.agent,
        "text": response.text,
        "answer": response.answer,
        "tokens": response.token_count,
        "prompt_tokens": turn.prompt_tokens,
        "truncated": response.truncated,
    }


async def with_html(turn: Json, groups: AnswerGroups) -> Json:
    """Return a turn with its text and answer set as HTML, and the number of its answer's group."""
    answer = turn["answer"]
    return {
        **turn,
        "html": text_html(turn["text"]),
        "answer_html": None if answer is None else answer_html(answer),
        "group": await groups.number(answer),
    }


async def verdict_json(verdict: Verdict, groups: AnswerGroups) -> Json:
    """Return a verdict as the page gets it."""
    answer = verdict.answer
    return {
        "answer": answer,
        "answer_html": None if answer is None else answer_html(answer),
        "group": await groups.number(answer),
        "votes": [
            {
                "answer": one.answer,
                "answer_html": answer_html(one.answer),
                "count": one.count,
                "group": await groups.number(one.answer),
            }
            for one in verdict.votes
        ],
        "tie": verdict.tie,
        "unanswered": verdict.unanswered,
    }


def started_json(team: ServedTeam, rounds: int, debate_id: str) -> Json:
    """Return the first event of a debate."""
    return {
        "type": "started",
        "id": debate_id,
        "team": team.name,
        "rounds": rounds,
        "generators": list(team.spec.generators),
        "critics": list(team.spec.critics),
    }


async def verdict_event(live: "LiveDebate", groups: AnswerGroups) -> Json:
    """Return the last event of a debate."""
    debate = live.debate
    assert debate is not None
    assert debate.verdict is not None
    return {
        "type": "verdict",
        **await verdict_json(debate.verdict, groups),
        "seconds": round(live.seconds, 3),
        "tokens": debate.generated_tokens,
        "prompt_tokens": debate.prompt_tokens,
    }


async def held_json(held: "HeldDebate", debate: Debate, *, grader: Grader) -> Json:
    """Return a debate as the page shows it."""
    groups = AnswerGroups(grader)
    assert debate.verdict is not None
    return {
        "id": held.id,
        "time": held.time,
        "team": held.team,
        "question": debate.question,
        "question_html": text_html(debate.question),
        "seed": held.seed,
        "seconds": held.seconds,
        "tokens": debate.generated_tokens,
        "prompt_tokens": debate.prompt_tokens,
        "rounds": [
            {
                "number": one.number,
                "role": one.role,
                "turns": [
                    await with_html(turn_json(turn, number=one.number, index=index), groups)
                    for index, turn in enumerate(one.turns)
                ],
            }
            for one in debate.rounds
        ],
        "verdict": await verdict_json(debate.verdict, groups),
    }
