"""The server of teams from its models to its end, and how its log is written."""

import json
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mada.serve.app import make_app
from mada.serve.http import serve_app
from mada.serve.page import page_routes
from mada.serve.service import ServerLimits, Service
from mada.serve.store import DebateStore
from mada.serve.teams import Catalogue
from mada.serve.watch import watch_routes
from mada.team import TeamSpec
from mada.text import sanitize


async def serve_teams(
    specs: Mapping[str, TeamSpec],
    listening: socket.socket,
    *,
    runs: Mapping[str, Path],
    store: Path | None,
    limits: ServerLimits,
    keys: Sequence[str],
    grace: float,
    ready: Callable[[Service], None],
) -> None:
    """Load teams and serve them until SIGINT or SIGTERM; then running requests have `grace` seconds to finish.

    The page shows the trainings of `runs` too.
    """
    catalogue = Catalogue(specs)
    held = DebateStore(store)
    service = Service(catalogue, held, limits=limits, keys=keys)
    try:
        await catalogue.load(queue=limits.queue, at_once=limits.at_once)
        app = make_app(service, watch_routes(runs, is_ending=lambda: service.is_closing) if runs else None)
        app.include_router(page_routes())
        await serve_app(app, listening, grace=grace, ending=service.end, ready=lambda: ready(service))
    finally:
        await service.close()


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
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()} {fields}"
        line = sanitize(line.rstrip())  # a refused request may quote what a client wrote
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
