"""The debates that were held, in one SQLite file: found again by their id, newest first, after a restart too."""

import asyncio
import logging
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from mada.debate.transcript import Debate
from mada.errors import RunError
from mada.text import shortened

T = TypeVar("T")

_log = logging.getLogger(__name__)

_DEBATE = TypeAdapter(Debate)
_COLUMNS = "id, time, team, question, answer, unanimous, tokens, seconds, seed"
_EXCERPT = 300
sqlite3.register_converter("BOOLEAN", lambda value: value == b"1")


@dataclass(frozen=True, slots=True)
class HeldDebate:
    """A debate as the list shows it; `question` is its beginning, and `unanimous` says that the last round agreed."""

    id: str
    time: float
    team: str
    question: str
    answer: str | None
    unanimous: bool
    tokens: int
    seconds: float
    seed: int

    @classmethod
    def of(cls, debate: Debate, debate_id: str, *, time: float, team: str, seconds: float, seed: int) -> "HeldDebate":
        """Describe a debate that has its verdict."""
        verdict = debate.verdict
        assert verdict is not None
        unanimous = len(verdict.votes) == 1 and not verdict.unanswered
        question = shortened(debate.question, _EXCERPT)
        return cls(debate_id, time, team, question, verdict.answer, unanimous, debate.generated_tokens, seconds, seed)


class DebateStore:
    """Debates in a file, or in memory until the server ends where `path` is `None`.

    What `add` has returned from survives the end of the process. Prompts repeat what others said, so transcripts are
    compressed.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        # One thread: a connection is not for several at once, and a slow disk must not hold up the engine.
        self._thread = ThreadPoolExecutor(1, "mada-store")
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                path or ":memory:", check_same_thread=False, detect_types=sqlite3.PARSE_DECLTYPES
            )
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS debates (id TEXT PRIMARY KEY, time REAL, team TEXT, question TEXT, "
                "answer TEXT, unanimous BOOLEAN, tokens INTEGER, seconds REAL, seed INTEGER, transcript BLOB)"
            )
            self._database.execute("CREATE INDEX IF NOT EXISTS by_time ON debates (time)")
            self._database.commit()
        except (sqlite3.Error, OSError) as error:
            raise RunError(
                f"{path}: debates cannot be stored there ({error}); give another file with --store"
            ) from None

    async def add(self, held: HeldDebate, debate: Debate) -> bool:
        """Store a debate; return whether that was possible, for an answer is worth giving all the same."""
        try:
            await self._do(self._add, held, debate)
        except sqlite3.Error as error:
            _log.error("%s: a debate could not be kept (%s)", self.path, error)
            return False
        return True

    async def get(self, debate_id: str) -> tuple[HeldDebate, Debate] | None:
        """Return a debate, or `None` if there is none of that id."""
        return await self._do(self._get, debate_id)

    async def newest(self, count: int) -> list[HeldDebate]:
        """Return the debates that were held last, newest first."""
        return await self._do(self._newest, count)

    def close(self) -> None:
        """Finish what is being written, and close the file."""
        self._thread.submit(self._database.close).result()
        self._thread.shutdown()

    async def _do(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _add(self, held: HeldDebate, debate: Debate) -> None:
        values = [getattr(held, name) for name in _COLUMNS.split(", ")]
        marks = ", ".join("?" * (len(values) + 1))
        with self._database:
            self._database.execute(
                f"INSERT INTO debates ({_COLUMNS}, transcript) VALUES ({marks})",
                [*values, zlib.compress(_DEBATE.dump_json(debate))],
            )

    def _get(self, debate_id: str) -> tuple[HeldDebate, Debate] | None:
        found = self._database.execute(f"SELECT {_COLUMNS}, transcript FROM debates WHERE id = ?", [debate_id])
        row = found.fetchone()
        return None if row is None else (_held(row[:-1]), _DEBATE.validate_json(zlib.decompress(row[-1])))

    def _newest(self, count: int) -> list[HeldDebate]:
        rows = self._database.execute(f"SELECT {_COLUMNS} FROM debates ORDER BY time DESC LIMIT ?", [count])
        return [_held(row) for row in rows]


def _held(row: Sequence[Any]) -> HeldDebate:
    return HeldDebate(**dict(zip(_COLUMNS.split(", "), row, strict=True)))
