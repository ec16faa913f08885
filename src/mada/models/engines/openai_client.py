"""The client of a completion server: connections, time-outs, replies of bounded size, and retries during an outage.

The `openai` package does the transport. Its own retries give up within seconds, and it bounds neither the size of a
reply nor the time of an attempt.
"""

import asyncio
import logging
import os
import random
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, TypeVar

import httpx2
import openai

from mada.errors import EngineError, UnansweredError
from mada.models.engines.openai_protocol import error_message

T = TypeVar("T")

_log = logging.getLogger(__name__)
_KEYS = ("MADA_API_KEY", "OPENAI_API_KEY")
_MAX_QUOTE = 300
_MAX_RETRY_AFTER = 600.0  # seconds; a server that asks for a longer wait is asked again after this one
_MAX_ODD_REPLIES = 6  # odd replies to one request before another request tells whether the server answers at all
_CONNECT_TIMEOUT = 30.0
_LOG_INTERVAL = 30.0  # seconds between two lines in the log during an outage
_max_bytes: ContextVar[int] = ContextVar("max_bytes")


class RetryableError(Exception):
    """A failed attempt. It is odd if the request may be the reason: status 500, or a reply that cannot be used."""

    def __init__(self, message: str, *, is_odd: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.is_odd = is_odd
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts: doubled each time, shortened at random by up to a half so that requests spread out.

    `sleep`, `random` and `clock` can be replaced in tests.
    """

    first: float = 0.5
    longest: float = 60.0
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    random: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def delay(self, attempt: int, *, retry_after: float | None = None) -> float:
        """Return the wait after an attempt, counted from 1; at least what the server asked for."""
        delay = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        return max(delay * (1 - self.random() / 2), min(retry_after or 0.0, _MAX_RETRY_AFTER))


@dataclass(slots=True)
class _Connection:
    """The client of one event loop, and the requests that use it."""

    client: openai.AsyncOpenAI
    slots: asyncio.Semaphore
    loop: asyncio.AbstractEventLoop
    users: int = 0


@dataclass
class ServerClient:
    """Sends requests to one server. The key is in no representation, and is removed from whatever is quoted."""

    url: str
    key: str | None = field(repr=False)
    slots: int
    timeout: float
    retry_for: float
    backoff: Backoff

    def __post_init__(self) -> None:
        self.url, self.key = _checked_url(self.url), _checked_key(self.key)
        self._connection: _Connection | None = None
        self._ssl: ssl.SSLContext | None = None
        self._seconds = self._busy_since = 0.0
        self._outage_since: float | None = None
        self._last_line = -_LOG_INTERVAL

    @property
    def seconds(self) -> float:
        """How long requests were running."""
        return self._seconds + (self.backoff.clock() - self._busy_since if self._connection is not None else 0.0)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[_Connection]:
        """Share one client: the first request opens it, the last one closes it.

        A client belongs to one event loop. As none outlives its requests, an engine works in one `asyncio.run` after
        another, and a loop that ends leaves no socket open.
        """
        loop, clock = asyncio.get_running_loop(), self.backoff.clock
        # A loop that was dropped while requests were running leaves a client that cannot be closed any more.
        if self._connection is None or self._connection.loop is not loop:
            self._seconds, self._busy_since = self.seconds, clock()
            self._connection = _Connection(self._new_client(), asyncio.Semaphore(self.slots), loop)
        connection = self._connection
        connection.users += 1
        try:
            yield connection
        finally:
            connection.users -= 1
            if not connection.users:
                if self._connection is connection:
                    self._seconds, self._connection = self.seconds, None
                await connection.client.close()

    def _new_client(self) -> openai.AsyncOpenAI:
        if self._ssl is None:
            # Reading the certificates takes longer than all the rest, and without TLS they are not needed.
            secure = self.url.startswith("https:")
            self._ssl = httpx2.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        http_client = httpx2.AsyncClient(
            verify=self._ssl,
            headers={"Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=_CONNECT_TIMEOUT),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=self.slots),
            event_hooks={"response": [_bound_reply]},
        )
        client = openai.AsyncOpenAI(
            base_url=self.url,
            api_key=self.key or "",
            admin_api_key="",  # the environment's is for OpenAI only
            max_retries=0,
            http_client=http_client,
            _enforce_credentials=False,
        )
        client.organization = client.project = None
        return client

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None, *, max_bytes: int) -> bytes:
        """Make one attempt, inside `connected`; a failure that another attempt may avoid is a `RetryableError`.

        `timeout` bounds the whole attempt: httpx's own starts again with every byte.
        """
        assert self._connection is not None
        client = self._connection.client
        options: Any = {} if self.key else {"headers": {"Authorization": openai.Omit()}}
        _max_bytes.set(max_bytes)
        try:
            async with asyncio.timeout(self.timeout):
                if method == "GET":
                    response = await client.get(path, cast_to=httpx2.Response, options=options)
                else:
                    response = await client.post(path, cast_to=httpx2.Response, body=body, options=options)
            return response.content
        except (openai.APITimeoutError, TimeoutError):
            raise RetryableError(f"no reply within {self.timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise RetryableError(str(error.__cause__ or error) or type(error.__cause__).__name__) from None
        except openai.APIStatusError as error:
            status = error.status_code
            if status not in (408, 409, 425, 429) and (status < 500 or status == 501):
                raise
            said = f"{status} {error.response.reason_phrase}: {error_message(error)}"
            wait = retry_after(error.response.headers.get("Retry-After", ""))
            raise RetryableError(said, is_odd=status == 500, retry_after=wait) from None

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        answers_others: Callable[[], Awaitable[bool]] | None = None,
        retry_for: float | None = None,
    ) -> T:
        """Repeat an attempt with growing waits until it succeeds, for at most `retry_for` seconds.

        After that, or after several odd replies, `answers_others` tells a server that is away, which is an
        `EngineError`, from one that only fails at this request, an `UnansweredError`.
        """
        limit, clock = min(retry_for or self.retry_for, self.retry_for), self.backoff.clock
        started: float | None = None
        odd, others_answered = 0, False
        for number in count(1):
            try:
                result = await attempt()
            except RetryableError as error:
                failure = error
            else:
                if self._outage_since is not None:
                    _log.warning("%s: answers again, after %.0f s", self.url, clock() - self._outage_since)
                    self._outage_since, self._last_line = None, -_LOG_INTERVAL
                return result
            started = clock() if started is None else started
            spent = clock() - started
            odd += failure.is_odd
            if others_answered:
                raise UnansweredError(
                    f"{self.url} answers, but not this request, tried {number} times: {self.quote(str(failure))}"
                )
            if (spent >= limit or odd >= _MAX_ODD_REPLIES) and answers_others is not None:
                others_answered = await answers_others()
                if others_answered:
                    continue  # the server may have recovered a moment ago
            if spent >= limit:
                raise EngineError(
                    f"{self.url} has given no usable reply for {limit:g} s, at last: {self.quote(str(failure))}. Is "
                    "the server up, and is this its address? For one that is slow or busy, the [engine] of a recipe "
                    "has rows, timeout and retry_for"
                )
            delay = min(self.backoff.delay(number, retry_after=failure.retry_after), limit - spent)
            self._log_outage(failure, delay, limit)
            await self.backoff.sleep(delay)
        raise AssertionError("unreachable")

    def _log_outage(self, failure: RetryableError, delay: float, limit: float) -> None:
        """Log an outage now and then: all requests wait for the same server."""
        now = self.backoff.clock()
        self._outage_since = now if self._outage_since is None else self._outage_since
        if now - self._last_line >= _LOG_INTERVAL:
            self._last_line = now
            _log.warning(
                "%s: %s; waiting for it, for %.0f s so far, next attempt in %.0f s, each request is given up after "
                "%.0f s",
                *(self.url, self.quote(str(failure)), now - self._outage_since, delay, limit),
            )

    def quote(self, text: str) -> str:
        """Return a server's words as one short line without control characters and without the key."""
        if self.key:
            text = text.replace(self.key, "…")  # some servers repeat a key that they refuse
        line = "".join(character if character.isprintable() else "�" for character in " ".join(text.split()))
        return line if len(line) <= _MAX_QUOTE else f"{line[: _MAX_QUOTE - 1]}…"


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream, self._limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._limit:
                raise RetryableError(f"the reply is larger than {self._limit:,} bytes", is_odd=True)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound_reply(response: httpx2.Response) -> None:
    """Bound the memory that a reply takes, of an error too; a compressed one would have no bound."""
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise RetryableError("the reply is compressed, which was not asked for", is_odd=True)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _BoundedStream(response.stream, _max_bytes.get())


def retry_after(value: str) -> float | None:
    """Return the seconds of a `Retry-After` header, which is seconds or a date; None for anything else."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _checked_url(url: str) -> str:
    try:
        parsed = httpx2.URL(url.strip())
    except httpx2.InvalidURL:
        parsed = httpx2.URL("")
    # A password in an address would be shown with it, in every error.
    if parsed.userinfo:
        raise EngineError("the server's address holds a user or password; take it out, and give a key as api_key")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise EngineError(
            f"got {url!r} as the address of a completion server, wanted one such as http://localhost:8000/v1"
        )
    return str(parsed).rstrip("/")


def _checked_key(key: str | None) -> str | None:
    """Return the given key, else the environment's; an empty one is none."""
    key = key if key is not None else next((os.environ[name] for name in _KEYS if os.environ.get(name)), "")
    key = key.strip()
    if not all("!" <= character <= "~" for character in key):
        raise EngineError(
            "the API key holds a space, or a character that is not ASCII, so it cannot be sent; copy it again "
            f"(it comes from api_key, or from {' or '.join(_KEYS)})"
        )
    return key or None
