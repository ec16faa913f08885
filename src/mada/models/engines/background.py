"""An engine in an event loop of its own, for engines that belong to the loop that started them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from threading import Thread
from typing import TypeVar

from mada.models.engines.engine import Completion, EngineStatistics, Live, PacedEngine, Sampling

T = TypeVar("T")


class BackgroundEngine:
    """Starts an engine in a thread with an event loop, and passes requests on to it from any other loop.

    So a notebook, or one `asyncio.run` after another, can use an engine such as vLLM's.
    """

    def __init__(self, start: Callable[[], Coroutine[object, object, PacedEngine]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="mada-engine", daemon=True)
        self._thread.start()
        try:
            self._engine = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        except BaseException:
            self._stop()
            raise

    @property
    def slots(self) -> int:
        """How many completions can be sampled at the same time."""
        return self._engine.slots

    @property
    def statistics(self) -> EngineStatistics:
        """What was done so far."""
        return self._engine.statistics

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Return `n` completions of a prompt by an agent, or by the bare base for `None`."""
        return await self._forward(self._engine.sample(agent, prompt_ids, sampling, n=n, live=live))

    async def sleep(self) -> None:
        """Free memory until `wake_up`."""
        await self._forward(self._engine.sleep())

    async def wake_up(self) -> None:
        """Continue with the adapters as they are now."""
        await self._forward(self._engine.wake_up())

    async def close(self) -> None:
        """Close the engine and end its thread."""
        if self._loop.is_closed():
            return
        try:
            await self._forward(self._engine.close())
        finally:
            self._stop()

    async def _forward(self, coroutine: Awaitable[T]) -> T:
        async def wait() -> T:
            return await coroutine

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), self._loop))

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
