"""A server over HTTP: address and key, connections, replies of bounded size, and asking again while it falters."""

import asyncio
import itertools
import logging
import os
import random
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from mada.errors import EngineError, UnansweredError
from mada.models.engines.openai.protocol import message_of

T = TypeVar("T")

_log = logging.getLogger(__name__)
_KEYS = ("MADA_API_KEY", "OPENAI_API_KEY")
_LONGEST_QUOTE = 300
_CONNECT = 30.0  # seconds; a server that is up accepts a connection at once, however long it takes to reply
_MOST_RETRY_AFTER = 600.0  # seconds; a server that asks for a longer wait is asked again after this one
_BETWEEN_LINES = 30.0  # seconds between two lines in the log while waiting
_ODD_REPLIES = 6  # odd replies to one request after which another one tells whether only this request gets them
_BUSY = frozenset({408, 409, 425, 429})
_LAST_CLIENT_ERROR, _INTERNAL_ERROR, _NOT_IMPLEMENTED = 499, 500, 501


class FailedAttemptError(Exception):
    """An attempt that another one may mend.

    It is odd if the request itself may be the reason: a reply that cannot be used, or status 500.
    """

    def __init__(self, failure: str, *, is_odd: bool = False, retry_after: float | None = None) -> None:
        super().__init__(failure)
        self.is_odd = is_odd
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between attempts: twice as long each time, shortened at random by up to a half.

    The random part keeps many requests that failed together from coming back together. `sleep`, `random` and `clock`
    are fields so that a test can wait no time at all, and a known one.
    """

    first: float = 0.5
    longest: float = 60.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def delay(self, attempt: int, *, retry_after: float | None = None) -> float:
        """Return the wait after an attempt, counted from 1; never shorter than what the server asked for."""
        whole = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        return max(whole * (1 - self.random() / 2), min(retry_after or 0.0, _MOST_RETRY_AFTER))


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply that another attempt would not mend."""

    status: int
    reason: str
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the server did what was asked."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The content as text, whatever it is."""
        return self.content.decode("utf-8", errors="replace")


@dataclass(slots=True)
class _Connection:
    """A client of one event loop, how many requests it may have under way, and who uses it."""

    client: httpx.AsyncClient
    slots: asyncio.Semaphore
    loop: asyncio.AbstractEventLoop
    users: int = 0


@dataclass
class ServerClient:
    """Asks one server. The key is in no representation, and is taken out of whatever is quoted."""

    url: str
    key: str | None = field(repr=False)
    slots: int
    timeout: float
    retry_for: float
    backoff: Backoff

    def __post_init__(self) -> None:
        self.url, self.key = _checked_url(self.url), _checked_key(self.key)
        self._current: _Connection | None = None
        self._trusted: ssl.SSLContext | None = None
        self._seconds = self._since = 0.0
        self._faltering_since: float | None = None
        self._last_line: float | None = None

    @property
    def seconds(self) -> float:
        """How long something was under way, so far."""
        return self._seconds + (self.backoff.clock() - self._since if self._current is not None else 0.0)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[_Connection]:
        """Share the connections with whoever else uses them: the first caller opens them, the last one closes them.

        An httpx client belongs to the event loop it was used in. As none outlives its requests, an engine can be used
        in one `asyncio.run` after another, and a loop that ends leaves no socket behind.
        """
        loop = asyncio.get_running_loop()
        # A loop that was dropped in the middle of its work leaves a client that nobody can use or close any more.
        if self._current is None or self._current.loop is not loop:
            self._seconds, self._since = self.seconds, self.backoff.clock()
            self._current = _Connection(self._new_client(), asyncio.Semaphore(self.slots), loop)
        connection = self._current
        connection.users += 1
        try:
            yield connection
        finally:
            connection.users -= 1
            if not connection.users:
                if self._current is connection:
                    self._seconds, self._current = self.seconds, None
                await connection.client.aclose()

    async def fetch(self, method: str, path: str, body: dict[str, Any] | None = None, *, most_bytes: int) -> Reply:
        """Make one attempt, inside `opened`; a larger reply, or one that another attempt may mend, is a failure.

        `timeout` is for the whole attempt: httpx's own starts anew with every byte, so a server that trickles would
        never be late.
        """
        assert self._current is not None
        try:
            async with (
                asyncio.timeout(self.timeout),
                self._current.client.stream(method, f"{self.url}/{path}", json=body) as response,
            ):
                content = await _bounded(response, most_bytes)
        except (httpx.TimeoutException, TimeoutError):
            raise FailedAttemptError(f"no reply within {self.timeout:g} s") from None
        except httpx.RequestError as error:
            raise FailedAttemptError(str(error) or type(error).__name__) from None
        reply = Reply(response.status_code, response.reason_phrase, content)
        if reply.status in _BUSY or (reply.status > _LAST_CLIENT_ERROR and reply.status != _NOT_IMPLEMENTED):
            said = f"{reply.status} {reply.reason}: {message_of(reply.text, otherwise='')}".rstrip(": ")
            wait = retry_after(response.headers.get("Retry-After", ""))
            raise FailedAttemptError(said, is_odd=reply.status == _INTERNAL_ERROR, retry_after=wait)
        return reply

    async def ask(
        self,
        exchange: Callable[[], Awaitable[T]],
        *,
        answers_others: Callable[[], Awaitable[bool]] | None = None,
        retry_for: float | None = None,
    ) -> T:
        """Repeat an exchange until it succeeds, with growing waits, for at most `retry_for` seconds.

        After that, or after several odd replies, `answers_others` tells a server that is away, which is an
        `EngineError`, from one that only fails at this request, an `UnansweredError`.
        """
        limit, clock = self.retry_for if retry_for is None else retry_for, self.backoff.clock
        began: float | None = None
        odd, others_answered = 0, False
        for attempt in itertools.count(1):
            try:
                result = await exchange()
            except FailedAttemptError as error:
                failed = error
            else:
                self._tell_recovery()
                return result
            began = clock() if began is None else began
            spent = clock() - began
            odd += failed.is_odd
            is_over = spent >= limit
            if others_answered:
                raise UnansweredError(
                    f"{self.url} answers, but not this request, tried {attempt} times: {self.quote(str(failed))}"
                )
            if (is_over or odd >= _ODD_REPLIES) and answers_others is not None:
                others_answered = await answers_others()
                if others_answered:
                    continue  # the server may be well since a moment ago
            if is_over:
                raise EngineError(
                    f"{self.url} has given no usable reply for {limit:g} s, at last: {self.quote(str(failed))}. Is the "
                    "server up, and is this its address? For one that is slow or busy, the [engine] of a recipe has "
                    "rows, timeout and retry_for"
                )
            delay = min(self.backoff.delay(attempt, retry_after=failed.retry_after), limit - spent)
            self._tell_waiting(failed, delay, limit)
            await self.backoff.sleep(delay)
        raise AssertionError("a loop without an end has ended")

    def quote(self, text: str) -> str:
        """Make a server's words fit to be shown: one line, not long, no control characters, and never the key."""
        if self.key:
            text = text.replace(self.key, "…")  # some servers repeat a key that they do not like
        words = " ".join(text.split())
        shown = "".join(character if character.isprintable() else "�" for character in words)
        return shown if len(shown) <= _LONGEST_QUOTE else f"{shown[: _LONGEST_QUOTE - 1]}…"

    def _new_client(self) -> httpx.AsyncClient:
        if self._trusted is None:
            # Reading the certificates takes longer than all the rest. Without TLS nobody needs to be trusted.
            secure = self.url.startswith("https:")
            self._trusted = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip", **({"Authorization": f"Bearer {self.key}"} if self.key else {})},
            verify=self._trusted,
            timeout=httpx.Timeout(None, connect=_CONNECT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.slots),
        )

    def _tell_waiting(self, failed: FailedAttemptError, delay: float, limit: float) -> None:
        """Log what is waited for, now and then: all requests of an outage wait for the same."""
        now = self.backoff.clock()
        if self._faltering_since is None:
            self._faltering_since = now
        if self._last_line is None or now - self._last_line >= _BETWEEN_LINES:
            self._last_line = now
            _log.warning(
                "%s: %s; waiting for it, for %.0f s so far, next attempt in %.0f s, each request is given up after "
                "%.0f s",
                *(self.url, self.quote(str(failed)), now - self._faltering_since, delay, limit),
            )

    def _tell_recovery(self) -> None:
        if self._faltering_since is not None:
            _log.warning("%s: answers again, after %.0f s", self.url, self.backoff.clock() - self._faltering_since)
            self._faltering_since = self._last_line = None


async def _bounded(response: httpx.Response, most_bytes: int) -> bytes:
    """Return a reply's content, decompressed as it comes, so that neither a long one nor a bomb fills the memory.

    One layer of gzip makes at most a thousand bytes of one, and chunks are small; more layers would multiply.
    """
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", "gzip", "deflate"):
        raise FailedAttemptError("the reply is compressed in a way that was not asked for", is_odd=True)
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > most_bytes:
            raise FailedAttemptError(f"the reply is larger than {most_bytes:,} bytes, far more than asked", is_odd=True)
    return bytes(content)


def retry_after(said: str) -> float | None:
    """Read `Retry-After`: seconds, or a date; anything else says nothing."""
    said = said.strip()
    if not said:
        return None
    if said.replace(".", "", 1).isdecimal():
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _checked_url(url: str) -> str:
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL:
        parsed = httpx.URL("")
    # A password in an address would be shown with it, in every error.
    if parsed.userinfo:
        raise EngineError("the server's address holds a user or password; take it out, and give a key as api_key")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise EngineError(
            f"got {url!r} as the address of a completion server, wanted one such as http://localhost:8000/v1"
        )
    return str(parsed).rstrip("/")


def _checked_key(key: str | None) -> str | None:
    """Return the key that was given, else the environment's; an empty one is none."""
    key = key if key is not None else next((os.environ[name] for name in _KEYS if os.environ.get(name)), "")
    key = key.strip()
    if not all("!" <= character <= "~" for character in key):
        raise EngineError(
            "the API key holds a space, or a character that is not ASCII, so it cannot be sent; copy it again "
            f"(it comes from api_key, or from {' or '.join(_KEYS)})"
        )
    return key or None
