"""What the engine works on: requests, and the rows that their completions are made in."""

import asyncio
from dataclasses import dataclass, field

from torch import Tensor

from mada.models.engines.engine import Completion, Sampling


@dataclass(slots=True, eq=False)
class Request:
    """One call of `sample`: a prompt, an agent, and as many completions as were asked for."""

    agent: int
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    count: int
    limit: int
    """Tokens after which a completion is cut off: the caller's limit, or what the context leaves."""
    result: asyncio.Future[list[Completion]]
    started: int = 0
    """Completions that have a row or had one."""
    finished: dict[int, Completion] = field(default_factory=dict[int, Completion])
    rows: list["Row"] = field(default_factory=list["Row"])
    last_logits: Tensor | None = None
    """The logits after the prompt, which every completion's first token is drawn from."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self.result.done()


@dataclass(slots=True, eq=False)
class Row:
    """One completion in the making, in one slot of the batch."""

    request: Request
    place: int
    slot: int
    token_ids: list[int] = field(default_factory=list[int])
    log_probs: list[float] = field(default_factory=list[float])
    done: bool = False

    @property
    def length(self) -> int:
        """Tokens of the row so far, prompt included."""
        return len(self.request.prompt_ids) + len(self.token_ids)

    def take(self, token: int, log_prob: float) -> Completion | None:
        """Add a token; return the completion when this ended it."""
        self.token_ids.append(token)
        self.log_probs.append(log_prob)
        ended = token in self.request.sampling.stop_tokens
        if not ended and len(self.token_ids) < self.request.limit:
            return None
        self.done = True
        return Completion(tuple(self.token_ids), tuple(self.log_probs), "end" if ended else "length")
