"""The best adapter of each agent on the shared validation set, kept in PEFT's own format (T4, T6).

An adapter is better only if its accuracy is strictly higher, so ties go to the earlier step. Each one lies in a folder
of its own, `best/<agent>/step-000050/`; one that a kept checkpoint refers to is never removed, so going back to that
checkpoint finds the adapter it calls the best.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from mada.learning.whole_folders import remove_folder, writing_folder
from mada.models.adapters import AdapterStack
from mada.models.adapters.peft_files import digest_of_adapter, save_adapter

FOLDER = "best"


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

    def is_whole(self, folder: Path) -> bool:
        """Whether the adapter in a folder is the one that was saved."""
        if self.digest is None:
            return folder.is_dir()
        with suppress(OSError):
            return digest_of_adapter(folder) == self.digest
        return False


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
    digest = digest_of_adapter(folder / name)
    return BestAdapter(agent=agent, step=step, accuracy=accuracy, folder=name, digest=digest)


def damaged_adapter(best: Mapping[str, BestAdapter], *, folder: Path) -> str | None:
    """Return the folder of a best adapter that is gone or damaged, if there is one."""
    return next((one.folder for one in best.values() if not one.is_whole(folder / one.folder)), None)


def remove_unreferenced(folder: Path, *, referenced: Collection[str]) -> None:
    """Remove the adapters that neither a kept checkpoint nor the running training calls the best."""
    for path in (folder / FOLDER).glob("*/step-*"):
        if path.relative_to(folder).as_posix() not in referenced:
            remove_folder(path)
