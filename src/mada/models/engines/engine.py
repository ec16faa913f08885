"""What an engine is: something that samples completions for agents, for as many callers at once as there are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Stop = Literal["end", "length", "failed"]
"""How a completion ended: at a stop token, at the limit, or because a server filtered it or gave it up."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one request is sampled.

    A temperature of 0 takes the likeliest token. `seed` and the place in the group decide every random number, so the
    same request gives the same tokens whatever else is in the batch, but for what rounding does: the last digits of a
    sum depend on the batch's size, and once in many thousand draws, on a GPU more often, that is another token.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    stop_tokens: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not self.temperature >= 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")


@dataclass(frozen=True, slots=True)
class Completion:
    """What was sampled: a stop token that ended it is the last of its tokens.

    `log_probs` are those of the model at the request's temperature (at 1 for temperature 0), before top-p and top-k:
    what the learner computes for the same tokens. `adapter_version` is the version of the agent's adapter that sampled
    it (`AdapterStack.version`), where the engine samples from a stack that learns.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    stop: Stop
    adapter_version: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class EngineStatistics:
    """What an engine has done so far: for throughput, and for how full its batches were."""

    prompt_tokens: int = 0
    """Prompt tokens read; a prompt shared by a group, or by requests that begin together, counts once."""
    generated_tokens: int = 0
    steps: int = 0
    rows_stepped: int = 0
    seconds: float = 0.0
    """Time during which there was something to do."""

    @property
    def rows_per_step(self) -> float:
        """Mean number of rows that a step advanced."""
        return self.rows_stepped / self.steps if self.steps else 0.0


class Engine(Protocol):
    """Samples for many callers at once; whoever waits is batched with whoever else waits."""

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`.

        Cancelling the call gives up its place in the batch.
        """
        ...

    async def rest(self) -> None:
        """Give back what can be given back while a learner works; nothing is sampled before `resume`."""
        ...

    async def resume(self) -> None:
        """Go on with the adapters as they are now: what is sampled from here on is theirs."""
        ...

    async def close(self) -> None:
        """Give back what the engine holds; requests still waiting are cancelled."""
        ...


class PacedEngine(Engine, Protocol):
    """An engine that is kept busy: it says how many completions it has room for, and what it has done."""

    @property
    def slots(self) -> int:
        """How many completions can be sampled at the same time."""
        ...

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far."""
        ...
