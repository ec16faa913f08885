"""Completions cached by everything that decides them: equal requests are sampled once.

Systems under test overlap: the first round of a debate is also a vote of its generators, and each of them alone. Their
requests are then equal to the last number, the seed included, and an engine answers equal requests equally; sampling
them once changes no result, only the time it takes.

A completion is written to disk when it is there, so a killed session loses only what was in progress, and a later
system, evaluation or ablation of the same run finds it. A damaged sample is dropped, counted and sampled again.
"""

import asyncio
import base64
import hashlib
import json
import logging
import re
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from mada.atomic import replace_bytes
from mada.errors import RunError
from mada.models.engines import Completion, Engine, Live, Sampling, Stop, fill
from mada.runs import Records, Run, StoredRecords
from mada.runs.jsonl import is_json

SAMPLES = "samples"
"""The name of the records in a run."""
_KEY = re.compile(rb'"key": ?"([0-9a-f]{64})"')
_SAMPLING = tuple(field.name for field in fields(Sampling))
_LENGTH = re.compile(rb'"length": ?(\d+)')

_log = logging.getLogger(__name__)


class CachingEngine:
    """An engine that passes each distinct request on once, whoever asks and whenever.

    `fingerprints` tell the weights behind each agent from all others. `sampled` counts the completions that the engine
    below had to make.
    """

    def __init__(self, engine: Engine, store: "SampleStore", fingerprints: Mapping[str | None, str]) -> None:
        self.sampled = 0
        self._engine, self._store, self._fingerprints = engine, store, fingerprints
        self._tasks: dict[tuple[str, ...], asyncio.Task[list[Completion]]] = {}

    async def sample(
        self,
        agent: str | None,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        live: Sequence[Live] | None = None,
    ) -> list[Completion]:
        """Return `n` completions, sampled now, being sampled for somebody else, or sampled before.

        A request that failed is not remembered. Readers of `live` see completions when they are whole.
        """
        keys = tuple(sample_key(self._fingerprints[agent], prompt_ids, sampling, index) for index in range(n))
        completions = [one for key in keys if (one := self._store.get(key)) is not None]
        if len(completions) < n:
            if keys not in self._tasks:
                task = self._tasks[keys] = asyncio.create_task(self._sample(keys, agent, prompt_ids, sampling))
                task.add_done_callback(lambda task: task.cancelled() or task.exception())  # callers may have given up
            # Shielded: one caller's cancellation must not reach the others' samples.
            completions = list(await asyncio.shield(self._tasks[keys]))
        fill(live, completions)
        return completions

    async def sleep(self) -> None:
        """Pass it on to the engine below."""
        await self._engine.sleep()

    async def wake_up(self) -> None:
        """Let the engine below go on; what was sampled before stays known, so the adapters must be the same."""
        await self._engine.wake_up()

    async def close(self) -> None:
        """Give up what is under way. The engine below belongs to others, and stays open."""
        unfinished = list(self._tasks.values())
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        self._tasks.clear()

    async def _sample(
        self, keys: tuple[str, ...], agent: str | None, prompt_ids: Sequence[int], sampling: Sampling
    ) -> list[Completion]:
        try:
            completions = await self._engine.sample(agent, prompt_ids, sampling, n=len(keys))
            for key, completion in zip(keys, completions, strict=True):
                self._store.put(key, completion)
        finally:
            # Before any caller hears of it: who asks again must find it stored, or after a failure a new request.
            self._tasks.pop(keys, None)
        self.sampled += len(completions)
        return completions


def sample_key(fingerprint: str, prompt_ids: Sequence[int], sampling: Sampling, index: int) -> str:
    """Return the digest of everything that decides one completion of a group."""
    parts = [fingerprint, {field: getattr(sampling, field) for field in _SAMPLING}, index]  # asdict copies deeply
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    digest.update(array("I", prompt_ids).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion: `tokens` and `log_probs` are `length` numbers of four bytes each, deflated, in base64."""

    key: str
    length: int
    tokens: str
    log_probs: str
    stop: Stop

    @classmethod
    def of(cls, key: str, completion: Completion) -> "Sample":
        """Pack a completion."""
        return cls(
            key,
            len(completion.token_ids),
            _packed(array("I", completion.token_ids)),
            _packed(array("f", completion.log_probs)),
            completion.stop,
        )

    @property
    def completion(self) -> Completion:
        """The completion as it was sampled, or a ValueError if the sample is damaged."""
        tokens, log_probs = _unpacked("I", self.tokens), _unpacked("f", self.log_probs)
        # A server may give no log-probabilities.
        if len(tokens) != self.length or len(log_probs) not in (0, self.length):
            raise ValueError(f"{len(tokens)} tokens and {len(log_probs)} log-probabilities, wanted {self.length}")
        return Completion(tuple(map(int, tokens)), tuple(map(float, log_probs)), self.stop)


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """How much was sampled, counted in the samples themselves: no kill can make it wrong."""

    completions: int
    tokens: int

    @classmethod
    def of(cls, records: StoredRecords[Sample]) -> "SampleCounts":
        """Count a file's samples without unpacking them."""
        lengths = [int(found[1]) for _, line in _complete_lines(records.path) if (found := _LENGTH.search(line))]
        return cls(len(lengths), sum(lengths))


def open_samples(run: Run) -> Records[Sample]:
    """Open a run's samples; if the file is damaged at its end, lines that are no samples are removed first."""
    try:
        return run.records(SAMPLES, Sample)
    except RunError:
        path = run.path("records", f"{SAMPLES}.jsonl")
        if not path.is_file():
            raise
    lines = [line for _, line in _complete_lines(path)]
    kept = [line for line in lines if _KEY.search(line) and is_json(line)]
    replace_bytes(path, b"".join(kept))
    _log.warning("%s: %d damaged samples are dropped and sampled again", path, len(lines) - len(kept))
    return run.records(SAMPLES, Sample)


class SampleStore:
    """The samples of a run, and of runs before it that are only read.

    All that is in memory is where each sample lies. `damaged` counts the samples that could not be used.
    """

    def __init__(self, records: Records[Sample], *, earlier: Sequence[StoredRecords[Sample]] = ()) -> None:
        self.damaged = 0
        self._records = records
        self._locations: dict[str, tuple[StoredRecords[Sample], int]] = {}
        for file in (*earlier, records):
            for start, line in _complete_lines(file.path):
                found = _KEY.search(line)
                if found:
                    self._locations[found[1].decode()] = (file, start)
                else:
                    self._count_damage(file)

    def __len__(self) -> int:
        return len(self._locations)

    def get(self, key: str) -> Completion | None:
        """Return a sample that is there and intact."""
        location = self._locations.get(key)
        if location is None:
            return None
        file, start = location
        try:
            sample = file.at(start)
            if sample.key == key:
                return sample.completion
        except (RunError, ValueError):
            pass
        self._count_damage(file)
        del self._locations[key]
        return None

    def put(self, key: str, completion: Completion) -> None:
        """Write a sample."""
        start = self._records.path.stat().st_size
        self._records.append(Sample.of(key, completion))
        self._locations[key] = (self._records, start)

    def _count_damage(self, file: StoredRecords[Sample]) -> None:
        self.damaged += 1
        _log.warning("%s: a sample is damaged; it is dropped and sampled again", file.path)


def _packed(numbers: "array[int] | array[float]") -> str:
    return base64.b64encode(zlib.compress(numbers.tobytes(), 1)).decode("ascii")


def _unpacked(kind: Literal["I", "f"], text: str) -> "array[int] | array[float]":
    try:
        return array(kind, zlib.decompress(base64.b64decode(text, validate=True)))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _complete_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield every line that ends, damaged or not, with the offset where it begins."""
    start = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield start, line
            start += len(line)
