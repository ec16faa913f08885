"""Backpressure: requests work as far as the engine has rows, some wait, and the rest are told when to come back."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mada.serve.protocol import RequestError

_LONGEST_WAIT = 120


@dataclass(eq=False, slots=True)
class Place:
    """Rows that a request has, or waits for until `turn` is done."""

    rows: int
    turn: asyncio.Future[None]
    is_given_back: bool = False


class Admission:
    """The places of one model: requests work that need up to `rows` rows together, and `queue` more may wait.

    First come, first served. More at work would not be faster: the engine's batch is full, and the late rounds of some
    would wait behind the early rounds of others.
    """

    def __init__(self, *, rows: int, queue: int) -> None:
        self.rows, self.queue = rows, queue
        self.working = 0
        self._free = rows
        self._line: deque[Place] = deque()
        self._mean_seconds = 1.0

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._line)

    def reserve(self, count: int, *, rows: int) -> list[Place]:
        """Return places of so many rows, now or later, to be given back with `release`.

        Raise RequestError 429 if too many wait already.
        """
        places = [Place(min(rows, self.rows), asyncio.get_running_loop().create_future()) for _ in range(count)]
        self._line.extend(places)
        self._call_first()
        if places[-1] in self._line and len(self._line) > self.queue:
            retry_after = self._retry_after()
            for place in places:
                self.release(place)
            raise RequestError(
                429,
                f"{self.waiting} requests are waiting, and no more than {self.queue} may; come back later",
                code="overloaded",
                retry_after=retry_after,
            )
        return places

    def release(self, place: Place) -> None:
        """Give a place back; once is enough, more does nothing."""
        if place.is_given_back:
            return
        place.is_given_back = True
        if place in self._line:
            self._line.remove(place)
            place.turn.cancel()
        else:
            self._free += place.rows
        self._call_first()

    @asynccontextmanager
    async def turn(self, place: Place) -> AsyncGenerator[None]:
        """Wait for a place's turn, and give it back after the block."""
        await place.turn
        started = time.monotonic()
        self.working += 1
        try:
            yield
        finally:
            self.working -= 1
            self._mean_seconds += 0.1 * (time.monotonic() - started - self._mean_seconds)
            self.release(place)

    def _call_first(self) -> None:
        while self._line and self._line[0].rows <= self._free:
            first = self._line.popleft()
            self._free -= first.rows
            if not first.turn.done():
                first.turn.set_result(None)

    def _retry_after(self) -> int:
        """Return the seconds after which the requests that wait now should have their turn."""
        return max(1, min(_LONGEST_WAIT, math.ceil(self._mean_seconds * self.waiting / max(1, self.working))))
