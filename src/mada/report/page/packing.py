"""All debates of some runs, packed for a page: an index that is there at once, and bodies in compressed chunks.

Transcripts come one by one in any order and may be more than memory holds, so bodies wait in a temporary file until
all are known and the order is.
"""

import base64
import gzip
import json
import tempfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from mada.atomic import explaining
from mada.evaluation.grid import Grid, Place, place_of
from mada.evaluation.scores import Transcript
from mada.report.page.bodies import body_of
from mada.report.page.index import Entry, index_of

CHUNK = 50
"""Debates whose bodies are compressed together: few enough to open at once, enough to share their words."""


class DebateSource(Protocol):
    """What of a run is needed here; `mada.report.reading.Source` has it."""

    @property
    def title(self) -> str:
        """What tells the run from the others."""
        ...

    @property
    def grid(self) -> Grid | None:
        """Its scores."""
        ...

    def transcripts(self) -> Iterator[Transcript]:
        """Yield the debates that were kept."""
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """Debates ready for a page; `chunks` are base64 of gzip of JSON, made while they are iterated over."""

    index: Mapping[str, object]
    chunks: Iterable[str]
    example: Entry | None = None
    """A debate that corrected its generators, of the first system that has one: what a reader sees first."""

    @property
    def count(self) -> int:
        """How many debates there are."""
        count = self.index["count"]
        assert isinstance(count, int)
        return count


NO_DEBATES = Packed(index_of((), chunk=CHUNK), ())


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A debate whose body lies in the temporary file."""

    entry: Entry
    offset: int
    length: int


@contextmanager
def packed(sources: Sequence[DebateSource], *, page: Path | None = None) -> Generator[Packed]:
    """Yield the debates of runs, sorted by run, system, benchmark, problem and seed, for as long as the block lasts.

    Trained debates come first, and of them the reference; else the order is that of the plan. Equal runs give equal
    bytes, in whichever order their debates were recorded. Bodies wait beside the page, which needs the room anyway;
    what the disk refuses is a RunError about the page. Without one they wait in the system's temporary folder.
    """
    with explaining(page) if page else nullcontext(), tempfile.TemporaryFile(dir=page and page.parent) as file:
        waiting = [
            _Waiting(entry, *_put(file, body))
            for number, source in enumerate(sources)
            for entry, body in _debates(source, number)
        ]
        waiting.sort(key=lambda one: one.entry.place)
        entries = [one.entry for one in waiting]
        yield Packed(index_of(entries, chunk=CHUNK), _Chunks(file, waiting), example_of(entries))


def example_of(entries: Iterable[Entry]) -> Entry | None:
    """Return the first corrected debate, of the first system that has one; those where all gave answers first."""
    corrected = (entry for entry in entries if entry.outcome == "corrected")
    return min(corrected, key=lambda entry: (entry.place[:2], None in entry.answers), default=None)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The bodies in their order, compressed chunk by chunk."""

    file: BinaryIO
    waiting: Sequence[_Waiting]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self.waiting), CHUNK):
            bodies = b",".join(_get(self.file, one) for one in self.waiting[start : start + CHUNK])
            yield base64.b64encode(gzip.compress(b"[%b]" % bodies, mtime=0)).decode("ascii")


def _debates(source: DebateSource, number: int) -> Iterator[tuple[Entry, dict[str, object]]]:
    grid = source.grid
    if grid is None:
        return
    held = sorted(grid.plan.held, key=grid.plan.reading_order)
    systems = {system.name: (rank, system.title) for rank, system in enumerate(held)}
    benchmarks = {benchmark: rank for rank, benchmark in enumerate(grid.problems)}
    for transcript in _scored(source.transcripts(), grid):
        score = grid.scores[place_of(transcript)]
        entry = Entry.of(
            transcript,
            score,
            run=(number, source.title),
            system=systems[transcript.system],
            benchmark=benchmarks[transcript.benchmark],
        )
        yield entry, body_of(transcript, score)


def _scored(transcripts: Iterable[Transcript], grid: Grid) -> Iterator[Transcript]:
    """Yield each debate that has a score once; a debate without one was of no account."""
    seen: set[Place] = set()
    for transcript in transcripts:
        place = place_of(transcript)
        if place in grid.scores and place not in seen:
            seen.add(place)
            yield transcript


def _put(file: BinaryIO, body: dict[str, object]) -> tuple[int, int]:
    # ASCII with escapes, so that even half a surrogate pair reaches the page as it was.
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    offset = file.tell()
    return offset, file.write(zlib.compress(text.encode("ascii"), level=1))


def _get(file: BinaryIO, one: _Waiting) -> bytes:
    file.seek(one.offset)
    return zlib.decompress(file.read(one.length))
