"""What was said in a debate, by whom, after seeing what: values that can be stored, read back and shown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

Role = Literal["generator", "critic"]
StopReason = Literal["end", "length", "cancelled", "failed"]
"""How a reply ended; failed means that a server filtered it, gave it up, or never gave it."""


@dataclass(frozen=True, slots=True)
class Response:
    """What an agent said, the answer found in it, and how it ended.

    `answer` is `None` when there is no final answer; `token_count` is the number of generated tokens, which the
    length reward and the cost accounting use; `token_ids` and `log_probs` are there when they were kept;
    `mean_log_prob`, over the generated tokens, when the engine gives it.
    """

    text: str
    answer: str | None
    token_count: int
    stop: StopReason = "end"
    token_ids: tuple[int, ...] | None = None
    log_probs: tuple[float, ...] | None = None
    mean_log_prob: float | None = None

    @property
    def truncated(self) -> bool:
        """Whether the token limit cut the reply off, so that readers of it can be told."""
        return self.stop == "length"


@dataclass(frozen=True, slots=True)
class Turn:
    """A response with the exact prompt it answers.

    `prompt` is what the model saw as text, chat template included; the two last numbers say what the window cost (P3).
    """

    agent: str
    prompt: str
    prompt_tokens: int
    response: Response
    shortened_responses: int = 0
    characters_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """Turns taken from one visible state: nobody in a round sees what another says in it."""

    number: int
    role: Role
    turns: tuple[Turn, ...]

    @property
    def responses(self) -> tuple[Response, ...]:
        """What the next round sees, in the order of the agents."""
        return tuple(turn.response for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Votes:
    """An answer, as most of those who gave it spelled it, and how many gave it."""

    answer: str
    count: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The vote over the last round; `votes` has the most first, and the winner first of all.

    `answer` is `None` when nobody answered; `tie` says that more than one answer had the most votes.
    """

    answer: str | None
    votes: tuple[Votes, ...] = ()
    tie: bool = False
    unanswered: int = 0

    @property
    def voters(self) -> int:
        """How many spoke in the last round, those without an answer included."""
        return sum(one.count for one in self.votes) + self.unanswered


@dataclass(frozen=True, slots=True)
class Debate:
    """A question, what was said about it round by round, and what came of it."""

    question: str
    rounds: tuple[Round, ...] = ()
    verdict: Verdict | None = None

    def with_round(self, role: Role, turns: Sequence[Turn]) -> "Debate":
        """Return the debate with one round more."""
        added = Round(len(self.rounds) + 1, role, tuple(turns))
        return replace(self, rounds=(*self.rounds, added))

    def with_verdict(self, verdict: Verdict) -> "Debate":
        """Return the debate with its outcome."""
        return replace(self, verdict=verdict)

    @property
    def last(self) -> Round:
        """The round that counts: accuracy and verdict are taken from it (I2)."""
        if not self.rounds:
            raise ValueError("this debate has not begun, so it has no last round")
        return self.rounds[-1]

    @property
    def generated_tokens(self) -> int:
        """Tokens sampled over all rounds, which is what a debate costs (E3)."""
        return sum(turn.response.token_count for one in self.rounds for turn in one.turns)

    @property
    def prompt_tokens(self) -> int:
        """Tokens read over all rounds."""
        return sum(turn.prompt_tokens for one in self.rounds for turn in one.turns)

    def _repr_html_(self) -> str:
        """Return the debate as a notebook shows it, each response folded; what models said is text and nothing else."""
        # The classes keep a notebook's MathJax away: its commands may open links and run scripts.
        parts = [f'<div class="mathjax_ignore tex2jax_ignore"><p><b>{escape(self.question)}</b></p>']
        for one in self.rounds:
            parts.append(f"<p>round {one.number}: {one.role}s</p>")
            parts += [_turn_html(turn) for turn in one.turns]
        if self.verdict is not None:
            tie = ", a tie" if self.verdict.tie else ""
            votes = ", ".join(f"{escape(votes.answer)}: {votes.count}" for votes in self.verdict.votes) or "no answers"
            parts.append(f"<p>verdict: <b>{_answer_html(self.verdict.answer)}</b> ({votes}{tie})</p>")
        return "\n".join([*parts, "</div>"])


def _turn_html(turn: Turn) -> str:
    said = turn.response
    cut_off = ", cut off" if said.truncated else ""
    summary = f"{escape(turn.agent)}: <b>{_answer_html(said.answer)}</b> ({said.token_count:,} tokens{cut_off})"
    text = f'<pre style="white-space: pre-wrap">{escape(said.text)}</pre>'
    return f"<details><summary>{summary}</summary>{text}</details>"


def _answer_html(answer: str | None) -> str:
    return "no answer" if answer is None else escape(answer)
