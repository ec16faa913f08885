"""Requests, the queue they wait in, and the rows of the batch that sample their completions."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from mada.models.engines.engine import Completion, Live, Sampling


@dataclass(slots=True, eq=False)
class Request:
    """One call of `sample`: a prompt, an agent, and the number of completions."""

    agent: int
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    count: int
    limit: int
    """Most tokens of a completion: the caller's limit, or what the context leaves."""
    result: asyncio.Future[list[Completion]]
    adapter_version: int | None = None
    live: Sequence[Live] = ()
    started: int = 0
    """Completions that have or had a row."""
    finished: dict[int, Completion] = field(default_factory=dict[int, Completion])
    rows: list["Row"] = field(default_factory=list["Row"])
    last_logits: Tensor | None = None
    """The logits after the prompt, from which every completion's first token is drawn."""

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self.result.done()

    @property
    def waiting(self) -> int:
        """Completions that have no row yet."""
        return self.count - self.started


@dataclass(slots=True, eq=False)
class Row:
    """One completion in progress, in one slot of the batch."""

    request: Request
    index: int
    """The completion's index in its request."""
    slot: int
    live: Live = field(init=False)
    done: bool = False
    length: int = field(init=False)
    """Tokens of the row so far, prompt included."""
    max_length: int = field(init=False)
    filtered: bool = field(init=False)
    """Whether top-p or top-k leave tokens out."""

    def __post_init__(self) -> None:
        sampling = self.request.sampling
        self.live = self.request.live[self.index] if self.request.live else Live()
        self.length = len(self.request.prompt_ids)
        self.max_length = self.length + self.request.limit
        self.filtered = sampling.top_p < 1 or sampling.top_k is not None

    def append(self, token: int, log_prob: float) -> Completion | None:
        """Append a token; return the completion if this ended it."""
        self.live.token_ids.append(token)
        self.live.log_probs.append(log_prob)
        self.length += 1
        ended = token in self.request.sampling.stop_tokens
        if not ended and self.length < self.max_length:
            return None
        self.done = True
        stop = "end" if ended else "length"
        return Completion(tuple(self.live.token_ids), tuple(self.live.log_probs), stop, self.request.adapter_version)


class RequestQueue:
    """Requests that still need rows, first come, first served.

    Thousands may wait, so only `drop_cancelled` goes through all of them.
    """

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()
        self.completions = 0
        """Completions without a row, of all requests."""

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @property
    def first(self) -> Request:
        """The request that has waited longest."""
        return self._requests[0]

    def append(self, request: Request) -> None:
        """Add a request at the end."""
        self._requests.append(request)
        self.completions += request.waiting

    def start_rows(self, free: Sequence[int]) -> list[Row]:
        """Start rows of the first request in the first free slots; it leaves the queue when all have started."""
        request = self.first
        rows = [Row(request, request.started + offset, slot) for offset, slot in enumerate(free[: request.waiting])]
        request.started += len(rows)
        request.rows += rows
        self.completions -= len(rows)
        if not request.waiting:
            self._requests.popleft()
        return rows

    def drop_cancelled(self) -> None:
        """Remove the requests that nobody waits for."""
        self._requests = deque(request for request in self._requests if not request.cancelled)
        self.completions = sum(request.waiting for request in self._requests)

    def clear(self) -> None:
        """Remove all requests."""
        self._requests.clear()
        self.completions = 0
