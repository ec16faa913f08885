"""The best adapter of each agent on the shared validation set, kept in PEFT's own format (T4, T6).

An adapter is better only if its accuracy is strictly higher, so ties go to the earlier step. Each one lies in a folder
of its own, `best/<agent>/step-000050/`; one that a kept checkpoint refers to is never removed, so going back to that
checkpoint finds the adapter it calls the best.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from mada.learning.whole_folders import remove_folder, remove_leftover_folders, writing_folder
from mada.models.adapters import AdapterStack
from mada.models.adapters.peft_files import save_adapter

FOLDER = "best"


class BestAdapter(BaseModel):
    """An agent's best adapter so far; `folder` is relative to the training's folder.

    `accuracy` is None when there is no validation set: then it is the last adapter.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str
    step: int
    accuracy: float | None
    folder: str


def is_better(accuracy: float | None, best: BestAdapter | None) -> bool:
    """Whether an accuracy beats the best so far; nothing so far is beaten by anything."""
    if best is None or accuracy is None or best.accuracy is None:
        return True
    return accuracy > best.accuracy


def save_best(
    stack: AdapterStack, agent: str, *, step: int, accuracy: float | None, folder: Path, base_name: str
) -> BestAdapter:
    """Save an agent's adapter as it is now, whole or not at all."""
    name = f"{FOLDER}/{agent}/step-{step:06d}"
    with writing_folder(folder / name) as partial:
        save_adapter(stack, agent, partial, base_name=base_name)
    return BestAdapter(agent=agent, step=step, accuracy=accuracy, folder=name)


def missing_adapter(best: Mapping[str, BestAdapter], *, folder: Path) -> str | None:
    """Return the folder of a best adapter that is gone, if there is one."""
    return next((adapter.folder for adapter in best.values() if not (folder / adapter.folder).is_dir()), None)


def remove_unreferenced(folder: Path, *, referenced: Collection[str]) -> None:
    """Remove the adapters that neither a kept checkpoint nor the running training calls the best."""
    for path in (folder / FOLDER).glob("*/step-*"):
        if path.relative_to(folder).as_posix() not in referenced:
            remove_folder(path)


def remove_best_leftovers(folder: Path) -> None:
    """Remove what killed processes left among the best adapters."""
    for own in (folder / FOLDER).glob("*"):
        remove_leftover_folders(own)
