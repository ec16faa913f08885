"""What the engine works on: requests, the queue they wait in, and the rows that their completions are made in."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
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
    adapter_version: int | None = None
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

    @property
    def missing(self) -> int:
        """Completions that have no row yet."""
        return self.count - self.started

    def begin(self, slots: Sequence[int]) -> list["Row"]:
        """Make one row for each of these slots."""
        rows = [Row(self, self.started + place, slot) for place, slot in enumerate(slots)]
        self.started += len(rows)
        self.rows += rows
        return rows


@dataclass(slots=True, eq=False)
class Row:
    """One completion in the making, in one slot of the batch."""

    request: Request
    place: int
    slot: int
    token_ids: list[int] = field(default_factory=list[int])
    log_probs: list[float] = field(default_factory=list[float])
    done: bool = False
    length: int = field(init=False)
    """Tokens of the row so far, prompt included."""
    end: int = field(init=False)
    """The length at which it is cut off."""
    filtered: bool = field(init=False)
    """Whether top-p or top-k leave tokens out."""

    def __post_init__(self) -> None:
        sampling = self.request.sampling
        self.length = len(self.request.prompt_ids)
        self.end = self.length + self.request.limit
        self.filtered = sampling.top_p < 1 or sampling.top_k is not None

    def take(self, token: int, log_prob: float) -> Completion | None:
        """Add a token; return the completion when this ended it."""
        self.token_ids.append(token)
        self.log_probs.append(log_prob)
        self.length += 1
        ended = token in self.request.sampling.stop_tokens
        if not ended and self.length < self.end:
            return None
        self.done = True
        stop = "end" if ended else "length"
        return Completion(tuple(self.token_ids), tuple(self.log_probs), stop, self.request.adapter_version)


class Queue:
    """Requests that still want rows, in the order they came.

    Thousands may wait, so nothing here walks through them but `drop_cancelled`, which is for after a cancellation.
    """

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self.wanted = 0
        """Completions that have no row yet, of all requests."""

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @property
    def first(self) -> Request:
        """Who has waited longest."""
        return self._requests[0]

    def append(self, request: Request) -> None:
        """Let a request wait."""
        self._requests.append(request)
        self.wanted += request.missing

    def begin(self, free: Sequence[int]) -> list[Row]:
        """Begin rows of the first request in the first of the free slots; it leaves the queue when all are begun."""
        request = self.first
        rows = request.begin(free[: request.missing])
        self.wanted -= len(rows)
        if not request.missing:
            self._requests.popleft()
        return rows

    def drop_cancelled(self) -> None:
        """Forget the requests that nobody waits for."""
        self._requests = deque(request for request in self._requests if not request.cancelled)
        self.wanted = sum(request.missing for request in self._requests)

    def clear(self) -> None:
        """Forget all requests."""
        self._requests.clear()
        self.wanted = 0
