"""Connections to a server, for as long as something is under way."""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from mada.models.engines.openai.server import Server

_CONNECT = 30.0  # seconds; a server that is there takes a connection at once, however long it thinks


@dataclass(slots=True)
class Connection:
    """A client, and the places in it, of one event loop."""

    client: httpx.AsyncClient
    places: asyncio.Semaphore
    loop: asyncio.AbstractEventLoop
    users: int = 0


class Connections:
    """Opens a client when the first request comes and closes it after the last.

    A client belongs to the event loop it was used in. As none outlives its requests, an engine can be used in one
    `asyncio.run` after another, and a loop that ends leaves no socket behind.
    """

    def __init__(self, server: Server, *, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._places = places
        self._clock = clock
        self._current: Connection | None = None
        self._trusted: ssl.SSLContext | None = None
        self._seconds = 0.0
        self._since = 0.0

    @property
    def seconds(self) -> float:
        """How long something was under way, so far."""
        return self._seconds + (self._clock() - self._since if self._current is not None else 0.0)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Connection]:
        """Share the client with whoever else uses it."""
        connection = self._join()
        try:
            yield connection
        finally:
            connection.users -= 1
            if not connection.users:
                if self._current is connection:
                    self._seconds, self._current = self.seconds, None
                await connection.client.aclose()

    def _join(self) -> Connection:
        loop = asyncio.get_running_loop()
        # A loop that was dropped in the middle of its work leaves a client that nobody can use or close any more.
        if self._current is None or self._current.loop is not loop:
            self._seconds, self._since = self.seconds, self._clock()
            self._current = Connection(self._client(), asyncio.Semaphore(self._places), loop)
        self._current.users += 1
        return self._current

    def _client(self) -> httpx.AsyncClient:
        if self._trusted is None:
            # Reading the certificates takes longer than all the rest. Without TLS nobody needs to be trusted.
            secure = self._server.url.startswith("https:")
            self._trusted = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.AsyncClient(
            headers=self._server.headers,
            verify=self._trusted,
            timeout=httpx.Timeout(None, connect=_CONNECT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=self._places),
        )
