"""An engine whose replies a function writes: for tests of whatever sits on top of an engine, without weights."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mada.models.engines.engine import Completion, Sampling


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One completion that a script is asked for; `place` counts within the group of `n`."""

    agent: str | None
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    place: int = 0


Script = Callable[[ScriptedRequest], Sequence[int] | Completion | Awaitable[Sequence[int] | Completion]]


class ScriptedEngine:
    """Replies from a function of the request, which returns token ids or a whole `Completion`, at once or awaited.

        engine = ScriptedEngine(lambda request: tokenizer.encode("The answer is \\\\boxed{4}"))

    Token ids are treated like sampled ones: cut after the first stop token or at `max_tokens`, with log-probability 0.
    `requests` holds every request in the order of asking, so a test can say exactly what an agent saw.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[ScriptedRequest] = []

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Ask the script `n` times."""
        asked = [ScriptedRequest(agent, tuple(prompt_ids), sampling, place) for place in range(n)]
        self.requests += asked
        return list(await asyncio.gather(*(self._reply(request) for request in asked)))

    async def rest(self) -> None:
        """Hold nothing, give back nothing."""

    async def resume(self) -> None:
        """Have no adapters that could change."""

    async def close(self) -> None:
        """Hold nothing, give back nothing."""

    async def _reply(self, request: ScriptedRequest) -> Completion:
        # Yield once, as a real engine does, so that callers meet the same interleaving.
        await asyncio.sleep(0)
        reply = self._script(request)
        if inspect.isawaitable(reply):
            reply = await reply
        return reply if isinstance(reply, Completion) else _cut(reply, request.sampling)


def _cut(token_ids: Sequence[int], sampling: Sampling) -> Completion:
    ends = [place for place, token in enumerate(token_ids) if token in sampling.stop_tokens]
    end = ends[0] + 1 if ends else len(token_ids)
    kept = tuple(token_ids[: min(end, sampling.max_tokens)])
    stop = "length" if end > sampling.max_tokens else "end"
    return Completion(kept, (0.0,) * len(kept), stop)
