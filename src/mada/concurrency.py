"""Several coroutines as one: all of them succeed, or none goes on; and one from code that is not asynchronous."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def gather_or_cancel(coroutines: Sequence[Coroutine[object, object, T]]) -> list[T]:
    """Run coroutines at once. The first failure, or being cancelled, ends the others before it is raised.

    `asyncio.gather` alone would leave the others running, and sampling, when nobody waits for them any more;
    `asyncio.TaskGroup` would wrap the failure, so that a person's mistake no longer reads as one.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        unfinished = [task for task in tasks if not task.done()]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Work on items, so many at a time; the first failure ends the others.

    Enough of them keep the engine's batch full; all at once would hold every prompt in memory.
    """
    waiting = iter(items)

    async def one_after_another() -> None:
        for item in waiting:
            await work(item)

    await gather_or_cancel([one_after_another() for _ in range(at_once)])


def run_sync(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end and return its result, also where an event loop is running, as in a notebook.

    There it gets an event loop in a thread of its own while the running one waits; Ctrl-C cancels the coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def work() -> T:
        task = asyncio.ensure_future(coroutine)
        started.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1, "mada") as thread:
        result = thread.submit(asyncio.run, work())
        try:
            return result.result()
        except KeyboardInterrupt:
            loop, task = started.result()
            loop.call_soon_threadsafe(task.cancel)
            raise
