"""A run's folder as it is now, and what has changed since: read from its files alone, whoever writes them."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

from mada.errors import MadaError
from mada.events import StepRollouts, TrainingStarted, from_json
from mada.pipeline.live import EVENTS, ROLLOUTS
from mada.pipeline.stages import STAGE_NAMES, stage_named, stage_names
from mada.recipe import Recipe
from mada.report.page.mathematics import text_html
from mada.runs import StageMark, StoredRun
from mada.runs.folder import mark_path
from mada.runs.lock import holder_of
from mada.runs.manifest import FILE as MANIFEST
from mada.runs.manifest import Manifest
from mada.serve.tails import Curves, Json, Session, number_of
from mada.text import printable

TRAININGS = ("generators", "critics")


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
            "eta": number_of(self._session.seconds_left(self._clock())) if is_running else None,
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
            and [number_of(session.step.rollout_seconds), number_of(session.step.learn_seconds)],
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
                "seconds": number_of(marks[name].seconds) if name in marks else None,
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
                    "reward": number_of(one.reward),
                    "advantage": number_of(one.advantage),
                    "correct": one.correct,
                    "truncated": one.truncated,
                }
                for one in group.rollouts
            ],
        }
        for group in event.groups
    ]
    return {"training": printable(event.training), "step": event.step, "groups": groups}


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
