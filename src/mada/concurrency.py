"""Several coroutines as one: all of them succeed, or none goes on."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

T = TypeVar("T")


async def all_or_none(coroutines: Sequence[Coroutine[object, object, T]]) -> list[T]:
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
