"""Listening and ending: the address, names by which it may be reached, and an end that lets what runs finish."""

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus
from starlette.middleware.trustedhost import TrustedHostMiddleware

from mada.errors import MadaError

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServeError(MadaError):
    """A server that cannot start."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket at an address; raise ServeError if that is taken or not to be had."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ServeError(
            f"cannot listen on {host}:{port} ({reason}); choose another --port (0 takes a free one) or --host"
        ) from None
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the address that a browser on this machine can open."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(host), str(host))
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve_app(
    app: FastAPI, listening: socket.socket, *, grace: float, ending: Callable[[], None], ready: Callable[[], None]
) -> None:
    """Serve until SIGINT or SIGTERM, then call `ending` and wait up to `grace` seconds for what is running.

    A second signal does not wait.
    """
    # Streams end by themselves; sse-starlette would break them off at once.
    AppStatus.disable_automatic_graceful_drain()
    if listening.getsockname()[0] in LOOPBACK:
        # A page from elsewhere must not reach a server on this machine under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]"])
    with suppress(ValueError, OSError):  # each client is an open file
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        backlog=4096,
        timeout_keep_alive=75,  # clients keep connections for a minute, and one closed under them is an error
        timeout_graceful_shutdown=max(1, round(grace)),
    )
    server = _Server(config, ending)
    announcing = asyncio.create_task(_announce(server, ready))
    try:
        await server.serve(sockets=[listening])
    finally:
        announcing.cancel()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end. uvicorn's own would raise the signal again after a good end."""
        self._ending()
        self.force_exit = self.should_exit
        self.should_exit = True


async def _announce(server: uvicorn.Server, ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    ready()
