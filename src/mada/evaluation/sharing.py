"""One sample for all who ask for it.

Systems under test overlap: the first round of a debate is also a vote of its generators, and each of them alone. Their
requests are then equal to the last number, the seed included, and an engine answers equal requests equally; sampling
them once changes no result, only the time it takes.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mada.models.engines import Completion, Engine, Sampling

Key = tuple[str | None, tuple[int, ...], Sampling, int]


@dataclass(slots=True)
class _Request:
    """A request on its way, or answered, and how many callers wait for it."""

    task: asyncio.Task[list[Completion]]
    waiting: int = 0


class SharingEngine:
    """An engine that passes each distinct request on once while it lives, whoever asks and whenever.

    It remembers every completion, so it is meant to be made anew for each problem. `asked` counts the completions that
    callers wanted, `sampled` those that the engine below had to make.
    """

    def __init__(self, engine: Engine) -> None:
        self.asked = 0
        self.sampled = 0
        self._engine = engine
        self._requests: dict[Key, _Request] = {}

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Return `n` completions, sampled now, being sampled for somebody else, or sampled before.

        A request that failed is not remembered. One that all its callers gave up is given up.
        """
        self.asked += n
        key = (agent, tuple(prompt_ids), sampling, n)
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = _Request(asyncio.create_task(self._sampled(key)))
        request.waiting += 1
        try:
            # Shielded: one caller's cancellation must not reach the others' samples.
            return list(await asyncio.shield(request.task))
        finally:
            request.waiting -= 1
            if not request.waiting and not request.task.done():
                self._forget(key)
                request.task.cancel()
                await asyncio.gather(request.task, return_exceptions=True)

    async def close(self) -> None:
        """Give up what is under way and forget the rest. The engine below belongs to others, and stays open."""
        unfinished = [request.task for request in self._requests.values() if not request.task.done()]
        self._requests.clear()
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    async def _sampled(self, key: Key) -> list[Completion]:
        agent, prompt_ids, sampling, n = key
        try:
            completions = await self._engine.sample(agent, prompt_ids, sampling, n=n)
        except BaseException:
            # Before any caller hears of the failure: who tries again must meet a new request.
            self._forget(key, task=asyncio.current_task())
            raise
        self.sampled += len(completions)
        return completions

    def _forget(self, key: Key, *, task: object = None) -> None:
        known = self._requests.get(key)
        # A request that was given up may end after its successor has begun; that one stays.
        if known is not None and (task is None or known.task is task):
            del self._requests[key]
