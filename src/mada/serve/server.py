"""Running the server: the address first, then the models, and an end that lets running debates finish."""

import asyncio
import json
import logging
import resource
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from mada.errors import MadaError
from mada.serve.app import make_app
from mada.serve.page import page_routes
from mada.serve.service import ServerLimits, Service
from mada.serve.store import DebateStore
from mada.serve.teams import Catalogue
from mada.team import TeamSpec

_LOCAL = ("127.0.0.1", "localhost", "::1")


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


async def serve_teams(
    specs: Mapping[str, TeamSpec],
    listening: socket.socket,
    *,
    store: Path | None,
    limits: ServerLimits,
    keys: Sequence[str],
    grace: float,
    ready: Callable[[Service], None],
) -> None:
    """Load teams and serve them until SIGINT or SIGTERM; then running requests have `grace` seconds to finish."""
    catalogue = Catalogue(specs)
    held = DebateStore(store)
    service = Service(catalogue, held, limits=limits, keys=keys)
    try:
        await catalogue.load(queue=limits.queue, at_once=limits.at_once)
        app = make_app(service)
        app.include_router(page_routes())
        await serve_app(app, listening, grace=grace, ending=service.end, ready=lambda: ready(service))
    finally:
        await service.close()


async def serve_app(
    app: FastAPI, listening: socket.socket, *, grace: float, ending: Callable[[], None], ready: Callable[[], None]
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal does not wait for what is running."""
    if listening.getsockname()[0] in _LOCAL:
        # A page from elsewhere must not reach a server on this machine under a name of its own.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*_LOCAL, "[::1]"])
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


class JsonLines(logging.Formatter):
    """One JSON object a line, for programs that read logs."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record with the fields it carries."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as `time message name=value …`."""
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()} {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
