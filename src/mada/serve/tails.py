"""Files that grow while a run goes on: read on from where the last look ended.

A last line that is not complete waits; a file that is no longer what was read (a new session, a training that went back
to a checkpoint) is read from its start. What cannot be read is left out: watching must never be the reason that nothing
is seen.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mada.events import (
    Event,
    Log,
    MemoryUsed,
    Progress,
    StageFinished,
    StageStarted,
    StepFinished,
    StepProgress,
    TrainingStarted,
    ValidationFinished,
    from_json,
)
from mada.runs.records import METRICS, VALIDATION
from mada.text import printable

CURVES = ("reward", "accuracy", "length", "truncated_share")
MOST_POINTS = 1_000
"""Of an agent, for who opens the page; what comes later is added."""
MOST_MESSAGES = 20
MIN_DONE, MIN_SHARE = 50, 0.02
"""Of a stage that works on many things at once so many, or this share of the rest, are done before the time left is
estimated: the first take long, and others are right behind them."""
LARGEST = 1e15
"""Numbers beyond it are mistakes."""

Point = list[float | None]
Json = dict[str, Any]


class Tail:
    """The lines that are added to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self._before = b""  # what stood before the end: how a file that was begun again is told from one that grew

    def read(self) -> tuple[bool, list[bytes]]:
        """Return whether the file has to be read from its start, and the complete lines that are new."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._end - len(self._before))
                is_new = file.read(len(self._before)) != self._before
                if is_new:
                    file.seek(0)
                added = file.read()
        except OSError:
            is_new, added = self._end > 0, b""
        complete = added[: added.rfind(b"\n") + 1]
        self._end = len(complete) + (0 if is_new else self._end)
        self._before = (b"" if is_new else self._before) + complete
        self._before = self._before[-256:]
        return is_new, complete.splitlines()


class Curves:
    """A training's numbers by agent: a point for every step and every validation."""

    def __init__(self, folder: Path) -> None:
        self.version = 0
        self.steps: dict[str, list[Point]] = {}
        self.validations: dict[str, list[Point]] = {}
        self._latest: dict[str, Json] = {}
        self._tails = (Tail(folder / METRICS), Tail(folder / VALIDATION))

    def update(self) -> None:
        """Read what is new."""
        (steps_again, steps), (validations_again, validations) = (tail.read() for tail in self._tails)
        if steps_again:
            self.steps = {}
        if validations_again:
            self.validations = {}
        self.version += steps_again or validations_again
        for record in _records(steps):
            _add(self.steps, record, CURVES)
            self._latest[str(record.get("agent"))] = record
        for record in _records(validations):
            _add(self.validations, record, ("accuracy",))

    def rates(self) -> list[float]:
        """Return the tokens per second that were sampled and learnt in the latest step, all agents together."""
        kinds = ("rollout_tokens_per_second", "learn_tokens_per_second")
        return [round(sum(number_of(one.get(kind)) or 0.0 for one in self._latest.values())) for kind in kinds]

    def plain(self) -> Json:
        """Return all points, of very long trainings some."""
        return {"steps": _thinned(self.steps), "validations": _thinned(self.validations)}

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many points there are of each kind and agent."""
        return {(kind, agent): len(points) for kind, agent, points in self._all()}

    def since(self, counts: Mapping[tuple[str, str], int]) -> list[Json]:
        """Return the points that are not counted."""
        return [
            {"kind": kind, "agent": agent, "points": points[counts.get((kind, agent), 0) :]}
            for kind, agent, points in self._all()
            if len(points) > counts.get((kind, agent), 0)
        ]

    def _all(self) -> Iterator[tuple[str, str, list[Point]]]:
        for kind, curves in (("steps", self.steps), ("validations", self.validations)):
            for agent, points in curves.items():
                yield kind, agent, points


class Session:
    """What the events of the latest session say."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._forget()

    def _forget(self) -> None:
        self.stage: str | None = None
        self.doing: str | None = None
        self.training: TrainingStarted | None = None
        self.step: StepFinished | None = None
        self.memory: tuple[float, MemoryUsed] | None = None
        self.messages: list[Json] = []
        self.progress: tuple[float, int, int] | None = None  # when, done, of
        self._first: tuple[float, int] | None = None  # what had been done when this stage began in this session

    def update(self) -> None:
        """Read what is new."""
        is_new, lines = self._tail.read()
        if is_new:
            self._forget()
        for line in lines:
            try:
                when, event = json.loads(line)["time"], from_json(line.decode())
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # cut short by a full disk, or of another version
            if number_of(when) is not None:
                self._take(when, event)

    def seconds_left(self, now: float) -> float | None:
        """Estimate what is left of the stage from what this session has done of it."""
        if self.progress is None or self._first is None:
            return None
        (when, done, of), (began, done_before) = self.progress, self._first
        fresh, left = done - done_before, of - done
        if fresh <= 0 or (self.training is None and fresh < min(MIN_DONE, MIN_SHARE * left)):
            return None
        return round(max(0.0, (when - began) / fresh * left - (now - when)))

    def _take(self, when: float, event: Event) -> None:
        match event:
            case StageStarted(name):
                self.stage, self.doing, self.progress = name, None, None
                self.training = self.step = self._first = None
            case StageFinished():
                self.stage = self.doing = self.progress = None
            case Progress(done, of, note):
                self.progress, self.doing = (when, done, of), note or None
                self._first = self._first or (when, done)
            case TrainingStarted():
                done = event.first_step - 1
                self.training, self.progress, self._first = event, (when, done, event.total_steps), (when, done)
            case StepProgress(phase, done, of):
                self.doing = phase if phase == "learning" else f"{phase}, {done:,} of {of:,}"
            case StepFinished():
                self.step, self.progress = event, (when, event.step, event.total_steps)
            case ValidationFinished():
                self.doing = None
            case MemoryUsed():
                self.memory = when, event
            case Log(message):
                self.messages = [*self.messages, {"time": when, "message": printable(message)}][-MOST_MESSAGES:]
            case _:
                pass


def _records(lines: list[bytes]) -> Iterator[Json]:
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _add(curves: dict[str, list[Point]], record: Json, names: tuple[str, ...]) -> None:
    agent, step = record.get("agent"), number_of(record.get("step"))
    if isinstance(agent, str) and step is not None:
        curves.setdefault(printable(agent), []).append([step, *(number_of(record.get(name)) for name in names)])


def _thinned(curves: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
    return {agent: points[:: 1 + len(points) // MOST_POINTS] for agent, points in curves.items()}


def number_of(value: object) -> float | None:
    """Return a number with five digits that count; None for what JSON or a chart has no place for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")
