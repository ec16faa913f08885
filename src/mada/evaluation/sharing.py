"""One sample for all who ask for it.

Systems under test overlap: the first round of a debate is also a vote of its generators, and each of them alone. Their
requests are then equal to the last number, the seed included, and an engine answers equal requests equally; sampling
them once changes no result, only the time it takes. With a memory on the disk (`samples`) this holds from session to
session too.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mada.models.engines import Completion, Engine, Sampling


@dataclass(frozen=True, slots=True)
class Wish:
    """All that decides what an engine answers."""

    agent: str | None
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    n: int


class Memory(Protocol):
    """Where completions are kept."""

    def find(self, wish: Wish) -> list[Completion] | None:
        """Return what was sampled for a wish before."""
        ...

    def keep(self, wish: Wish, completions: Sequence[Completion]) -> None:
        """Remember what was sampled for a wish."""
        ...


class ForgetfulMemory:
    """Keeps completions as long as it lives."""

    def __init__(self) -> None:
        self._known: dict[Wish, list[Completion]] = {}

    def find(self, wish: Wish) -> list[Completion] | None:
        """Return what was sampled for a wish before."""
        return self._known.get(wish)

    def keep(self, wish: Wish, completions: Sequence[Completion]) -> None:
        """Remember what was sampled for a wish."""
        self._known[wish] = list(completions)


@dataclass(slots=True)
class _Request:
    """A request on its way, and how many callers wait for it."""

    task: asyncio.Task[list[Completion]]
    waiting: int = 0


class SharingEngine:
    """An engine that passes each distinct request on once, whoever asks and whenever.

    `memory` holds what was sampled; by default it is this process's own, so it grows for as long as the engine lives.
    `asked` counts the completions that callers wanted, `sampled` those that the engine below had to make.
    """

    def __init__(self, engine: Engine, memory: Memory | None = None) -> None:
        self.asked = 0
        self.sampled = 0
        self._engine = engine
        self._memory = ForgetfulMemory() if memory is None else memory
        self._requests: dict[Wish, _Request] = {}

    async def sample(
        self, agent: str | None, prompt_ids: Sequence[int], sampling: Sampling, *, n: int = 1
    ) -> list[Completion]:
        """Return `n` completions, sampled now, being sampled for somebody else, or sampled before.

        A request that failed is not remembered. One that all its callers gave up is given up.
        """
        self.asked += n
        wish = Wish(agent, tuple(prompt_ids), sampling, n)
        request = self._requests.get(wish)
        if request is None:
            known = self._memory.find(wish)
            if known is not None:
                return list(known)
            request = self._requests[wish] = _Request(asyncio.create_task(self._sampled(wish)))
        request.waiting += 1
        try:
            # Shielded: one caller's cancellation must not reach the others' samples.
            return list(await asyncio.shield(request.task))
        finally:
            request.waiting -= 1
            if not request.waiting and not request.task.done():
                self._forget(wish)
                request.task.cancel()
                await asyncio.gather(request.task, return_exceptions=True)

    async def sleep(self) -> None:
        """Let the engine below rest."""
        await self._engine.sleep()

    async def wake_up(self) -> None:
        """Let the engine below go on; what was sampled before stays known, so the adapters must be the same."""
        await self._engine.wake_up()

    async def close(self) -> None:
        """Give up what is under way. The engine below belongs to others, and stays open."""
        unfinished = [request.task for request in self._requests.values() if not request.task.done()]
        self._requests.clear()
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    async def _sampled(self, wish: Wish) -> list[Completion]:
        try:
            completions = await self._engine.sample(wish.agent, wish.prompt_ids, wish.sampling, n=wish.n)
            self._memory.keep(wish, completions)
        finally:
            # Before any caller hears of it: who asks again must meet the memory, or after a failure a new request.
            self._forget(wish, task=asyncio.current_task())
        self.sampled += len(completions)
        return completions

    def _forget(self, wish: Wish, *, task: object = None) -> None:
        known = self._requests.get(wish)
        # A request that was given up may end after its successor has begun; that one stays.
        if known is not None and (task is None or known.task is task):
            del self._requests[wish]
