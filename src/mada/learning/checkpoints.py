"""Checkpoints: everything training needs to resume as if it had never stopped (T7).

    checkpoints/step-000100/
      adapters.safetensors    every agent's adapter, stacked as the model holds them
      optimizer.safetensors   the learner's state
      state.json              step, best adapters so far, what is being trained, versions, digests of the two files

Neither the data's position nor a random state is stored: both are functions of seed and step. A checkpoint appears
complete or not at all. One whose files do not have the digests that `state.json` gives was damaged later; it is set
aside as `damaged-step-…` with a warning, and the one before it is used.
"""

import hashlib
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError
from safetensors.torch import load, save
from torch import Tensor

from mada.atomic import remove_folder, writing_folder
from mada.difference import differences, format_differences
from mada.digest import digest_of
from mada.errors import LearningError
from mada.models.adapters import AdapterStack
from mada.models.adapters.peft_files import digest_of_adapter, save_adapter
from mada.runs.jsonl import json_text
from mada.runs.manifest import package_versions

BEST = "best"
"""The best adapter of each agent on the validation set, in PEFT's format (T4, T6), is in `best/<agent>/step-000050/`.
One that a kept checkpoint refers to is never removed, so a training that resumes from it finds its best adapter."""


class BestAdapter(BaseModel):
    """An agent's best adapter so far; `folder` is relative to the training's folder.

    `accuracy` is None when there is no validation set: then it is the last adapter. `digest` tells damage later; an
    older mada wrote none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str
    step: int
    accuracy: float | None
    folder: str
    digest: str | None = None

    def is_complete(self, folder: Path) -> bool:
        """Whether the adapter in a folder is the one that was saved."""
        if self.digest is None:
            return folder.is_dir()
        with suppress(OSError):
            return digest_of_adapter(folder) == self.digest
        return False


def is_better(accuracy: float | None, best: BestAdapter | None) -> bool:
    """Whether an accuracy is strictly higher than the best so far, so ties go to the earlier step."""
    if best is None or accuracy is None or best.accuracy is None:
        return True
    return accuracy > best.accuracy


def save_best(
    stack: AdapterStack, agent: str, *, step: int, accuracy: float | None, folder: Path, base_name: str
) -> BestAdapter:
    """Save an agent's adapter as it is now, complete or not at all."""
    name = f"{BEST}/{agent}/step-{step:06d}"
    with writing_folder(folder / name) as partial:
        save_adapter(stack, agent, partial, base_name=base_name)
    digest = digest_of_adapter(folder / name)
    return BestAdapter(agent=agent, step=step, accuracy=accuracy, folder=name, digest=digest)


def remove_unreferenced(folder: Path, *, referenced: Collection[str]) -> None:
    """Remove the adapters that neither a kept checkpoint nor the running training calls the best."""
    for path in (folder / BEST).glob("*/step-*"):
        if path.relative_to(folder).as_posix() not in referenced:
            remove_folder(path)


FOLDER = "checkpoints"
_STATE, _ADAPTERS, _OPTIMIZER = "state.json", "adapters.safetensors", "optimizer.safetensors"

_log = logging.getLogger(__name__)


class CheckpointState(BaseModel):
    """What `state.json` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    step: int
    best: dict[str, BestAdapter]
    training: dict[str, JsonValue]
    versions: dict[str, str]
    sha256: dict[str, str]
    digest: str | None = None
    """Of all other fields; an older mada wrote none."""

    @property
    def expected_digest(self) -> str:
        """What `digest` is unless something changed."""
        return digest_of(self.model_dump(mode="json", exclude={"digest"}))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint read back."""

    path: Path
    state: CheckpointState
    adapters: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


class Checkpoints:
    """The checkpoints in a training's folder, of which the last `keep` stay."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        self._root = folder
        self._folder = folder / FOLDER
        self._keep = keep

    def write(
        self,
        step: int,
        *,
        adapters: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        best: Mapping[str, BestAdapter],
        training: Mapping[str, JsonValue],
    ) -> Path:
        """Write the checkpoint of a finished step, complete and on the disk when this returns; remove old ones."""
        path = self._folder / f"step-{step:06d}"
        content = {_ADAPTERS: _saved(adapters), _OPTIMIZER: _saved(optimizer)}
        state = CheckpointState(
            step=step,
            best=dict(best),
            training=dict(training),
            versions=package_versions(),
            sha256={name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
        )
        state = state.model_copy(update={"digest": state.expected_digest})
        text = json_text(state.model_dump(mode="json"), subject=str(path / _STATE), indent=2) + "\n"
        with writing_folder(path) as partial:
            for name, data in {**content, _STATE: text.encode()}.items():
                (partial / name).write_bytes(data)
        for old in self._newest_first()[self._keep :]:
            remove_folder(old)
        return path

    def newest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint, None when there is none; damaged ones are set aside."""
        damaged: dict[Path, str] = {}
        for path in self._newest_first():
            try:
                checkpoint = _read(path, root=self._root)
            except _DamagedError as error:
                damaged[path] = str(error)
                continue
            # Out of the way, because a damaged one would count among those to keep and push out a good one.
            for bad, reason in damaged.items():
                aside = bad.with_name(f"damaged-{bad.name}")
                if aside.exists():
                    remove_folder(aside)
                bad.rename(aside)
                _log.warning("%s is damaged (%s); it is now %s, and %s is used", bad, reason, aside.name, path.name)
            return checkpoint
        if damaged:
            reasons = "; ".join(f"{path.name}: {reason}" for path, reason in damaged.items())
            raise LearningError(
                f"no checkpoint in {self._folder} can be used ({reasons}); restore one from a copy, or remove "
                f"{self._root} to train from the beginning"
            )
        return None

    def referenced(self) -> set[str]:
        """Return the folders of best adapters that the checkpoints refer to; a damaged checkpoint refers to none."""
        folders: set[str] = set()
        for path in self._newest_first():
            with suppress(_DamagedError):
                folders |= {adapter.folder for adapter in _state(path).best.values()}
        return folders

    def _newest_first(self) -> list[Path]:
        steps = {path.name.removeprefix("step-"): path for path in self._folder.glob("step-*")}
        return [steps[digits] for digits in sorted(filter(str.isdecimal, steps), key=int, reverse=True)]


def restore_adapters(stack: AdapterStack, adapters: Mapping[str, Tensor]) -> None:
    """Give the stack the parameters of a checkpoint; all or nothing, names and shapes are compared first."""
    own = stack.parameters()
    odd = sorted(own.keys() ^ adapters.keys()) or [name for name in own if own[name].shape != adapters[name].shape]
    if odd:
        raise LearningError(
            f"the checkpoint does not fit these adapters: they differ at {odd[0]} ({len(odd)} in all); resume with the "
            "base model, the agents and the rank that training started with"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(adapters[name])
    stack.bump_version(stack.agents)


def check_same_training(stored: Mapping[str, JsonValue], given: Mapping[str, JsonValue], *, folder: Path) -> None:
    """Raise when a folder holds the training of something else, naming what differs."""
    found = differences(stored, given)
    if found:
        raise LearningError(
            f"{folder} holds a training with other settings (stored → given):\n{format_differences(found)}\n"
            "Resume with the stored ones, or train in another folder"
        )


class _DamagedError(Exception):
    """What is wrong with a checkpoint."""


def _read(path: Path, *, root: Path) -> Checkpoint:
    state = _state(path)
    for best in state.best.values():
        if not best.is_complete(root / best.folder):
            raise _DamagedError(f"the best adapter it refers to, {best.folder}, is not there or not what was written")
    tensors: dict[str, dict[str, Tensor]] = {}
    for name in (_ADAPTERS, _OPTIMIZER):
        try:
            data = (path / name).read_bytes()
        except OSError as error:
            raise _DamagedError(f"{name} cannot be read: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != state.sha256.get(name):
            raise _DamagedError(f"{name} is not what was written")
        tensors[name] = load(data)
    return Checkpoint(path, state, adapters=tensors[_ADAPTERS], optimizer=tensors[_OPTIMIZER])


def _state(path: Path) -> CheckpointState:
    try:
        state = CheckpointState.model_validate_json((path / _STATE).read_bytes())
    except (OSError, ValidationError) as error:
        raise _DamagedError(f"{_STATE} cannot be read: {str(error).splitlines()[0]}") from error
    if state.digest not in (None, state.expected_digest):
        raise _DamagedError(f"{_STATE} is not what was written")
    return state


def _saved(tensors: Mapping[str, Tensor]) -> bytes:
    return save({name: tensor.detach().contiguous() for name, tensor in tensors.items()})
