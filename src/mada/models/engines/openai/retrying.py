"""Asking again: a server that is starting, busy or briefly away is no reason to lose a night's evaluation."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_MOST_RETRY_AFTER = 600.0  # seconds; a server that asks for a longer wait is asked again after this one


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts: twice as long each time, shortened at random by up to a half.

    The random part keeps many requests that failed together from coming back together. `sleep` and `random` are fields
    so that a test can wait no time at all, and a known one.
    """

    first: float = 0.5
    longest: float = 60.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def delay(self, attempt: int, *, retry_after: float | None = None) -> float:
        """Return the wait after an attempt, counted from 1; never shorter than what the server asked for."""
        whole = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        return max(whole * (1 - self.random() / 2), min(retry_after or 0.0, _MOST_RETRY_AFTER))


class NoAnswerError(Exception):
    """No attempt got an answer; says what came of the last one."""

    def __init__(self, failure: str, response: httpx.Response | None) -> None:
        super().__init__(failure)
        self.response = response


async def ask_until_answered(
    send: Callable[[], Awaitable[httpx.Response]], *, attempts: int, timeout: float, backoff: Backoff
) -> httpx.Response:
    """Return the first answer that another attempt would not mend, be it good or bad.

    `timeout` is for a whole attempt: httpx's own starts anew with every byte, so a server that trickles would never
    be late.
    """
    for attempt in range(1, attempts + 1):
        response = None
        try:
            async with asyncio.timeout(timeout):
                response = await send()
        except (httpx.TimeoutException, TimeoutError):
            failure = f"no answer within {timeout:g} s"
        except httpx.RequestError as error:
            failure = str(error) or type(error).__name__
        else:
            if response.status_code not in RETRIED:
                return response
            failure = f"{response.status_code} {response.reason_phrase}"
        if attempt == attempts:
            raise NoAnswerError(failure, response) from None
        await backoff.sleep(backoff.delay(attempt, retry_after=_retry_after(response)))
    raise ValueError(f"attempts must be at least 1, got {attempts}")


def _retry_after(response: httpx.Response | None) -> float | None:
    """Read `Retry-After`: seconds, or a date; anything else says nothing."""
    said = response.headers.get("Retry-After", "").strip() if response is not None else ""
    if not said:
        return None
    if said.replace(".", "", 1).isdecimal():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
