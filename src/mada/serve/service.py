"""What all requests of a server share, and what one of them may take."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mada.grading import Grader
from mada.serve.metrics import Metrics
from mada.serve.store import DebateStore
from mada.serve.streams import Readers
from mada.serve.teams import Catalogue


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one request may take, and how many there may be.

    `at_once` debates of a model work at the same time (by default as many as fill the engine's batch), and `queue`
    requests wait.
    """

    seconds: float = 600.0
    body_bytes: int = 2**20
    queue: int = 256
    at_once: int | None = None


class Service:
    """What all requests share."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: DebateStore,
        *,
        limits: ServerLimits | None = None,
        keys: Sequence[str] = (),
        grader: Grader | None = None,
    ) -> None:
        self.catalogue, self.store = catalogue, store
        self.limits = limits or ServerLimits()
        self.keys = tuple(key.encode() for key in keys)
        self.grader = grader or Grader()
        self.metrics = Metrics(catalogue)
        self.readers = Readers()
        self.is_closing = False
        """Whether the server ends: what works goes on, nothing new begins."""

    def end(self) -> None:
        """Refuse what is new from now on."""
        self.is_closing = True

    async def close(self) -> None:
        """End engines, grader and store."""
        await self.catalogue.close()
        await asyncio.to_thread(self.grader.close, abandon=True)
        self.store.close()
