"""The interface of all engines, and `ScriptedEngine`, whose completions a function writes."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mada.errors import EngineError

Stop = Literal["end", "length", "failed"]
"""How a completion ended: at a stop token, at the limit, or because a server filtered or aborted it."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one request is sampled.

    Temperature 0 is greedy. `seed` and the index in the group decide every random number, so the same request gives the
    same tokens whatever else is in the batch, up to rounding: the last digits of a sum depend on the batch's size, and
    once in many thousand draws (more often on a GPU) that changes a token.
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
    """A sampled completion; a stop token that ended it is the last of its tokens.

    `log_probs` are the model's at the request's temperature (at 1 for temperature 0), before top-p and top-k: what the
    learner computes for the same tokens. `adapter_version` is the version of the agent's adapter that sampled it
    (`AdapterStack.version`), where the engine samples from a stack that learns.
    """

    token_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    stop: Stop
    adapter_version: int | None = field(default=None, compare=False)


@dataclass(slots=True)
class Live:
    """What an engine has sampled of one completion so far; it grows while the engine works."""

    token_ids: list[int] = field(default_factory=list[int])
    log_probs: list[float] = field(default_factory=list[float])


@dataclass(slots=True)
class EngineStatistics:
    """What an engine has done so far, for throughput and batch occupancy."""

    prompt_tokens: int = 0
    """Prompt tokens read; a prompt shared by a group, or by requests that start together, counts once."""
    generated_tokens: int = 0
    steps: int = 0
    rows_stepped: int = 0
    seconds: float = 0.0
    """Time during which requests were in progress."""

    @property
    def rows_per_step(self) -> float:
        """Mean number of rows in a decoding step."""
        return self.rows_stepped / self.steps if self.steps else 0.0


class Engine(Protocol):
    """Samples completions for many callers at once; concurrent calls are batched."""

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`.

        `live`, one for each completion, gets tokens as they are sampled, for readers that do not wait for the end.
        Cancelling the call removes its rows from the batch.
        """
        ...

    async def sleep(self) -> None:
        """Free memory for a learner where possible; nothing is sampled before `wake_up`."""
        ...

    async def wake_up(self) -> None:
        """Continue with the adapters as they are now."""
        ...

    async def close(self) -> None:
        """Release all resources and cancel waiting requests."""
        ...


class PacedEngine(Engine, Protocol):
    """An engine that tells callers how much work keeps it busy."""

    @property
    def slots(self) -> int:
        """How many completions can be sampled at the same time."""
        ...

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far."""
        ...


def fill(live: Sequence[Live] | None, completions: Sequence[Completion]) -> None:
    """Give readers whole completions at once, where an engine has nothing earlier to give."""
    for one, completion in zip(live or (), completions, strict=live is not None):
        one.token_ids += completion.token_ids
        one.log_probs += completion.log_probs


def check_request(
    prompt_ids: Sequence[int], n: int, *, vocabulary: int | None = None, context: int | None = None
) -> None:
    """Refuse a request that no engine can sample."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if not prompt_ids:
        raise EngineError("the prompt is empty; a model needs at least one token to continue")
    if vocabulary is not None and not 0 <= min(prompt_ids) <= max(prompt_ids) < vocabulary:
        odd = next(token for token in prompt_ids if not 0 <= token < vocabulary)
        raise EngineError(f"the prompt holds token {odd}, and the model knows 0 to {vocabulary - 1}")
    if context is not None and len(prompt_ids) >= context:
        raise EngineError(
            f"the prompt has {len(prompt_ids):,} tokens and the engine's context is {context:,}, so there is no room "
            "for a reply; shorten the prompt, or raise the context"
        )


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One completion that a script is asked for; `index` counts within the group of `n`."""

    agent: str | None
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    index: int = 0


Script = Callable[[ScriptedRequest], Sequence[int] | Completion | Awaitable[Sequence[int] | Completion]]


class ScriptedEngine:
    """For tests without weights: a function of the request returns token ids or a `Completion`, or awaits them.

        engine = ScriptedEngine(lambda request: tokenizer.encode("The answer is \\\\boxed{4}"))

    Token ids are treated like sampled ones: cut after the first stop token or at `max_tokens`, with log-probability 0.
    `requests` holds every request in order, so a test can check exactly what an agent saw.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[ScriptedRequest] = []

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Call the script `n` times."""
        requests = [ScriptedRequest(agent, tuple(prompt_ids), sampling, index) for index in range(n)]
        self.requests += requests
        completions = list(await asyncio.gather(*(self._complete(request) for request in requests)))
        fill(live, completions)
        return completions

    async def sleep(self) -> None:
        """Do nothing."""

    async def wake_up(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def _complete(self, request: ScriptedRequest) -> Completion:
        # Yield once, as a real engine does, so that callers interleave in the same way.
        await asyncio.sleep(0)
        reply = self._script(request)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, Completion):
            return reply
        sampling = request.sampling
        end = next((index + 1 for index, token in enumerate(reply) if token in sampling.stop_tokens), len(reply))
        token_ids = tuple(reply[: min(end, sampling.max_tokens)])
        return Completion(token_ids, (0.0,) * len(token_ids), "length" if end > sampling.max_tokens else "end")
