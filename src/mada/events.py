"""What happens while mada works, as values: stages, trainer and debates emit events; terminal and trackers subscribe.

    events = Events(view, tracker)
    run_recipe(run, recipe, events=events)

An event holds numbers, text and records only, so that it can be followed from another process: `to_json`, `from_json`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import TypeAdapter

from mada.runs import StageMark
from mada.runs.records import AgentStep, ValidationStep


@dataclass(frozen=True)
class Event:
    """Something that happened."""


Subscriber = Callable[[Event], None]


@runtime_checkable
class Wanting(Protocol):
    """A subscriber that asks for events which are made only where someone wants them now, as `StepRollouts` are."""

    def wants(self, kind: type[Event]) -> bool:
        """Whether the next event of this kind is worth making."""
        ...


class Events:
    """A stream of events. Every subscriber gets every event, in order and in the emitter's thread: it must be quick.

    A stream is itself a subscriber, so `Events(events, more)` is `events` with another one.
    """

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = list(subscribers)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Give a subscriber all events from now on."""
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        """Give an event to all subscribers."""
        for subscriber in self._subscribers:
            subscriber(event)

    __call__ = emit

    def wants(self, kind: type[Event]) -> bool:
        """Whether a subscriber asks for an event that takes time to make."""
        return any(isinstance(one, Wanting) and one.wants(kind) for one in self._subscribers)

    def log(self, message: str) -> None:
        """Emit a message."""
        self.emit(Log(message))

    def progress(self, done: int, of: int, note: str = "") -> None:
        """Emit how far the stage is."""
        self.emit(Progress(done, of, note))


@dataclass(frozen=True)
class Log(Event):
    """A message worth reading, such as which engine was chosen."""

    message: str


# Stages of a run


@dataclass(frozen=True)
class StageStarted(Event):
    """A stage starts or resumes."""

    name: str
    number: int
    of: int


@dataclass(frozen=True)
class StageSkipped(Event):
    """A stage was finished in an earlier session."""

    mark: StageMark


@dataclass(frozen=True)
class StageFinished(Event):
    """A stage is finished; its mark has its summary."""

    mark: StageMark


@dataclass(frozen=True)
class Progress(Event):
    """How far the stage is; what an earlier session finished counts as done."""

    done: int
    of: int
    note: str = ""


# Training


@dataclass(frozen=True)
class BestStep:
    """The step after which an agent had its best validation accuracy; None without a validation set."""

    step: int
    accuracy: float | None


@dataclass(frozen=True)
class TrainingStarted(Event):
    """A training starts, or resumes from a checkpoint; then `best` are the best steps before it."""

    name: str
    agents: tuple[str, ...]
    first_step: int
    total_steps: int
    settings: Mapping[str, Any]
    best: Mapping[str, BestStep]
    checkpoint: Path | None = None


@dataclass(frozen=True)
class StepProgress(Event):
    """How far a training step or a validation is, in groups sampled and scored."""

    phase: Literal["sampling", "learning", "validating"]
    done: int
    of: int


@dataclass(frozen=True)
class StepFinished(Event):
    """The adapters were updated. All agents share the seconds."""

    step: int
    total_steps: int
    agents: Mapping[str, AgentStep]
    rollout_seconds: float
    learn_seconds: float

    @property
    def seconds(self) -> float:
        """How long the step took."""
        return self.rollout_seconds + self.learn_seconds


@dataclass(frozen=True)
class Rollout:
    """One completion as people read it; what is long is shortened in the middle."""

    text: str
    tokens: int
    reward: float
    advantage: float
    correct: bool | None
    truncated: bool


@dataclass(frozen=True)
class RolloutGroup:
    """An agent's completions of one prompt; `question` is what people know it by."""

    agent: str
    prompt: str
    question: str
    rollouts: tuple[Rollout, ...]


@dataclass(frozen=True)
class StepRollouts(Event):
    """What agents wrote in a step: a group of each, where a subscriber `wants` it."""

    training: str
    step: int
    groups: tuple[RolloutGroup, ...]


@dataclass(frozen=True)
class ValidationFinished(Event):
    """All agents answered the validation set; step 0 is before any update."""

    step: int
    total_steps: int
    agents: Mapping[str, ValidationStep]
    seconds: float


@dataclass(frozen=True)
class CheckpointWritten(Event):
    """An interruption from now on loses nothing up to this step."""

    step: int
    path: Path


@dataclass(frozen=True)
class TrainingFinished(Event):
    """All steps are taken and saved."""

    name: str


# The machine


@dataclass(frozen=True)
class MemoryUsed(Event):
    """Memory in bytes: of the process, and of all that use its GPUs, as (used, total) by GPU."""

    process: int
    gpus: tuple[tuple[int, int], ...] = ()


def to_json(event: Event, **more: float) -> str:
    """Return an event as a line of JSON, with more numbers such as its time; `from_json` ignores those."""
    fields: dict[str, Any] = _adapter(type(event)).dump_python(event, mode="json")
    return json.dumps({"event": type(event).__name__, **more, **fields})


def from_json(line: str) -> Event:
    """Return the event that `to_json` wrote."""
    fields = json.loads(line)
    kinds = {kind.__name__: kind for kind in Event.__subclasses__()}
    return _adapter(kinds[fields.pop("event")]).validate_python(fields)


@cache  # making one takes longer than using it
def _adapter(kind: type[Event]) -> TypeAdapter[Event]:
    return TypeAdapter(kind)
