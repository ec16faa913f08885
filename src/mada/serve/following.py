"""A run's folder as it is now, and what has changed since: read from its files alone, whoever writes them.

Files are read on from where the last look ended. A last line that is not complete waits; a file that is no longer what
was read (a new session, a training that went back to a checkpoint) is read from its start. What cannot be read is left
out: watching must never be the reason that nothing is seen.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from mada.errors import MadaError
from mada.events import (
    Event,
    Log,
    MemoryUsed,
    Progress,
    StageFinished,
    StageStarted,
    StepFinished,
    StepProgress,
    StepRollouts,
    TrainingStarted,
    ValidationFinished,
    from_json,
)
from mada.pipeline.live import EVENTS, ROLLOUTS
from mada.pipeline.stages import STAGE_NAMES, stage_named, stage_names
from mada.recipe import Recipe
from mada.report.page.mathematics import text_html
from mada.runs import StageMark, StoredRun
from mada.runs.folder import mark_path
from mada.runs.lock import holder_of
from mada.runs.manifest import FILE as MANIFEST
from mada.runs.manifest import Manifest
from mada.runs.records import METRICS, VALIDATION
from mada.text import printable

TRAININGS = ("generators", "critics")
CURVES = ("reward", "accuracy", "length", "truncated_share")
MOST_POINTS = 1_000
"""Of an agent, for who opens the page; what comes later is added."""
MOST_MESSAGES = 20
MIN_DONE, MIN_SHARE = 50, 0.02
"""Of a stage that works on many things at once so many, or this share of the rest, are done before the time left is
estimated: the first take long, and others are right behind them."""

MOST = 1e15
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
        return [round(sum(_number(one.get(kind)) or 0.0 for one in self._latest.values())) for kind in kinds]

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
            if _number(when) is not None:
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


class FollowedRun:
    """A run's folder, read again whenever someone wants to know."""

    def __init__(self, name: str, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.name, self.folder = name, folder
        self.curves = {training: Curves(folder / training) for training in TRAININGS}
        self.lock = threading.Lock()
        self._session = Session(folder / EVENTS)
        self._clock = clock
        self._manifest = _WhenChanged(folder / MANIFEST, lambda _: _with_stages(StoredRun.read(folder).manifest))
        self._rollouts = _WhenChanged(folder / ROLLOUTS, _read_rollouts)
        self._marks = {
            name: _WhenChanged(mark_path(folder, name), lambda path: StageMark.model_validate_json(path.read_bytes()))
            for name in STAGE_NAMES
        }

    def row(self) -> Json:
        """Return the run's line in the list."""
        self._session.update()
        manifest, names, problem = self._read_manifest()
        marks = self._read_marks()
        is_running = holder_of(self.folder) is not None
        is_finished = "report" in marks and not is_running
        stage = (
            None if is_finished else self._session.stage or next((name for name in names if name not in marks), None)
        )
        _, done, of = self._session.progress or (0, None, None)
        if is_finished:
            done = of = None
        return {
            "name": self.name,
            "folder": printable(str(self.folder)),
            "state": "running" if is_running else "finished" if is_finished else "stopped",
            "stage": stage,
            "started": manifest.sessions[-1].started_at.timestamp() if manifest else None,
            "done": done,
            "of": of,
            "eta": _number(self._session.seconds_left(self._clock())) if is_running else None,
            "problem": problem,
        }

    def state(self) -> Json:
        """Return everything small: the line of the list, stages, rates, memory and messages."""
        row = self.row()
        session, is_running = self._session, row["state"] == "running"
        manifest, names, _ = self._read_manifest()
        return {
            **row,
            **_facts(manifest),
            "ended": None
            if is_running or manifest is None
            else _ending(manifest, is_finished=row["state"] == "finished"),
            "doing": session.doing if is_running else None,
            "stages": self._stages(row, names),
            "step_seconds": session.step
            and [_number(session.step.rollout_seconds), _number(session.step.learn_seconds)],
            "rates": self.curves[session.training.name].rates() if _is_known(session.training) else None,
            "memory": _memory(session) if is_running else None,
            "messages": session.messages,
        }

    def update_curves(self) -> None:
        """Read what is new of the trainings."""
        for curves in self.curves.values():
            curves.update()

    def rollouts(self) -> Json | None:
        """Return the latest rollouts as the page shows them; the same object until there are others."""
        try:
            return self._rollouts.read()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def _read_manifest(self) -> tuple[Manifest | None, tuple[str, ...], str | None]:
        """Return the manifest with the stages of its recipe, or what is wrong with it."""
        try:
            return *self._manifest.read(), None
        except (MadaError, OSError) as error:
            return None, (), printable(str(error))

    def _read_marks(self) -> dict[str, StageMark]:
        marks: dict[str, StageMark] = {}
        for name, file in self._marks.items():
            try:
                marks[name] = file.read()
            except (OSError, ValueError):
                continue
        return marks

    def _stages(self, row: Json, names: tuple[str, ...]) -> list[Json]:
        marks = self._read_marks()
        now = "running" if row["state"] == "running" else "stopped"
        return [
            {
                "name": name,
                "does": stage_named(name).does,
                "state": "done" if name in marks else now if name == row["stage"] else "waiting",
                "seconds": _number(marks[name].seconds) if name in marks else None,
            }
            for name in STAGE_NAMES
            if name in (*marks, *names, row["stage"])
        ]


class Changes:
    """What one reader has not seen yet of a run: first everything, then what is new."""

    def __init__(self, run: FollowedRun) -> None:
        self._run = run
        self._state: Json = {}
        self._curves: dict[str, tuple[int, dict[tuple[str, str], int]]] = {}
        self._rollouts: Json | None = None

    def look(self) -> Json:
        """Return the keys that have changed; `points` are to be added to the curves, all others replaced."""
        with self._run.lock:
            self._run.update_curves()
            state = self._run.state()
            changed = {key: value for key, value in state.items() if self._state.get(key, ...) != value}
            self._state = state
            rollouts = self._run.rollouts()
            if rollouts is not self._rollouts or "name" in changed:
                changed["rollouts"] = self._rollouts = rollouts
            curves = {name: one.plain() for name, one in self._run.curves.items() if self._is_other(name, one)}
            points = [
                {"training": name, **more}
                for name, one in self._run.curves.items()
                if name not in curves
                for more in one.since(self._curves[name][1])
            ]
            self._curves = {name: (one.version, one.counts()) for name, one in self._run.curves.items()}
        return changed | ({"curves": curves} if curves else {}) | ({"points": points} if points else {})

    def _is_other(self, name: str, curves: Curves) -> bool:
        return name not in self._curves or self._curves[name][0] != curves.version


class _WhenChanged:
    """What a function makes of a file, made again when the file is another."""

    def __init__(self, path: Path, make: Callable[[Path], Any]) -> None:
        self._path, self._make = path, make
        self._seen: tuple[int, int, int] | None = None
        self._value: Any = None

    def read(self) -> Any:
        status = self._path.stat()
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._value, self._seen = self._make(self._path), seen
        return self._value


def _read_rollouts(path: Path) -> Json:
    text = path.read_text()
    event = from_json(text)
    if not isinstance(event, StepRollouts):
        raise ValueError("these are no rollouts")
    groups = [
        {
            "agent": printable(group.agent),
            "prompt": printable(group.prompt),
            "question_html": text_html(group.question),
            "rollouts": [
                {
                    "html": text_html(one.text),
                    "tokens": one.tokens,
                    "reward": _number(one.reward),
                    "advantage": _number(one.advantage),
                    "correct": one.correct,
                    "truncated": one.truncated,
                }
                for one in group.rollouts
            ],
        }
        for group in event.groups
    ]
    return {"training": printable(event.training), "step": event.step, "groups": groups}


def _records(lines: list[bytes]) -> Iterator[Json]:
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _add(curves: dict[str, list[Point]], record: Json, names: tuple[str, ...]) -> None:
    agent, step = record.get("agent"), _number(record.get("step"))
    if isinstance(agent, str) and step is not None:
        curves.setdefault(printable(agent), []).append([step, *(_number(record.get(name)) for name in names)])


def _thinned(curves: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
    return {agent: points[:: 1 + len(points) // MOST_POINTS] for agent, points in curves.items()}


def _number(value: object) -> float | None:
    """Return a number with five digits that count; None for what JSON or a chart has no place for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST:
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")


def _with_stages(manifest: Manifest) -> tuple[Manifest, tuple[str, ...]]:
    """Return a manifest with the stages of its recipe; an evaluation file's are the last two."""
    try:
        return manifest, stage_names(Recipe.model_validate(manifest.recipe))
    except ValueError:  # of an evaluation file, or of another version
        return manifest, ("evaluate", "report")


def _facts(manifest: Manifest | None) -> Json:
    if manifest is None:
        return {"model": None, "seed": None, "machine": None}
    model, hardware = manifest.recipe.get("model"), manifest.sessions[-1].hardware
    name = model.get("name") if isinstance(model, dict) else None
    gpus = [gpu.name for gpu in hardware.gpus]
    return {
        "model": printable(str(name)) if name else None,
        "seed": manifest.seed,
        "machine": printable(f"{len(gpus)} × {gpus[0]}" if gpus else f"{hardware.cpu}, {hardware.cores} cores"),
    }


def _ending(manifest: Manifest, *, is_finished: bool) -> str | None:
    """Return how a session ended that did not end by itself."""
    last = manifest.sessions[-1]
    if last.ended_at is None:
        return None if is_finished else "killed"
    if last.ended_by in ("KeyboardInterrupt", "CancelledError", "Exit"):
        return "interrupted"
    return last.ended_by and printable(last.ended_by)


def _is_known(started: TrainingStarted | None) -> TypeGuard[TrainingStarted]:
    return started is not None and started.name in TRAININGS


def _memory(session: Session) -> Json | None:
    if session.memory is None:
        return None
    when, memory = session.memory
    return {"time": when, "process": memory.process, "gpus": [list(gpu) for gpu in memory.gpus]}
