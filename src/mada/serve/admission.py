"""Backpressure: so many requests work at once, so many wait, and the rest are told when to come back."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mada.serve.protocol import RequestError

_LONGEST_WAIT = 120


class Admission:
    """The places of one model: `at_once` requests work, `queue` more may wait for their turn, first come first served.

    More at once would not be faster: the engine's batch is full, and late rounds would wait behind early ones.
    """

    def __init__(self, *, at_once: int, queue: int) -> None:
        self.at_once, self.queue = at_once, queue
        self.pending = 0
        """Requests that work or wait."""
        self.working = 0
        self._turns = asyncio.Semaphore(at_once)
        self._mean_seconds = 1.0

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self.pending - self.working

    def reserve(self, count: int = 1) -> None:
        """Count requests in, to be counted out with `release`; raise RequestError 429 if too many wait already."""
        if self.pending + count > self.at_once + self.queue:
            raise RequestError(
                429,
                f"{self.pending} requests are working or waiting, and {self.at_once + self.queue} may; come back later",
                code="overloaded",
                retry_after=self._retry_after(),
            )
        self.pending += count

    def release(self, count: int = 1) -> None:
        """Count requests out."""
        self.pending -= count

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a turn, and take it during the block."""
        async with self._turns:
            started = time.monotonic()
            self.working += 1
            try:
                yield
            finally:
                self.working -= 1
                self._mean_seconds += 0.1 * (time.monotonic() - started - self._mean_seconds)

    def _retry_after(self) -> int:
        """Return the seconds after which the requests that wait now should have their turn."""
        return max(1, min(_LONGEST_WAIT, math.ceil(self._mean_seconds * self.waiting / self.at_once)))
