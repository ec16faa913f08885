"""The manifest: what a run is, and what each of its sessions ran with.

`manifest.json` holds the resolved recipe once, and one session per time a process opened the run, so a run resumed on
another machine or with another version shows both. A session without an end was killed, or is running now.
"""

import json
import os
import socket
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

from pydantic import BaseModel, Field, JsonValue, ValidationError, computed_field

from mada.atomic import replace_text
from mada.difference import ABSENT, Difference, differences, format_differences
from mada.digest import digest_of
from mada.errors import RunError
from mada.run.environment import (
    Commit,
    Frozen,
    Hardware,
    command_line,
    current_commit,
    current_hardware,
    package_versions,
)
from mada.run.jsonl import json_text

FORMAT = 1
FILE = "manifest.json"


class Session(Frozen):
    """One process's time with the run."""

    started_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None
    """The type of the exception that ended it, if one did."""
    host: str
    pid: int
    command: tuple[str, ...]
    versions: dict[str, str]
    commit: Commit | None
    hardware: Hardware
    changes: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields that this session had otherwise than the recipe."""

    @classmethod
    def begin(cls, changes: Mapping[str, JsonValue] | None = None) -> Self:
        """Return this process's session, starting now."""
        return cls(
            changes=dict(changes or {}),
            started_at=datetime.now(UTC),
            host=socket.gethostname(),
            pid=os.getpid(),
            command=command_line(sys.argv),
            versions=package_versions(),
            commit=current_commit(),
            hardware=current_hardware(),
        )


class Manifest(Frozen):
    """What a run is: its recipe and seed, and its sessions, oldest first."""

    format: int = FORMAT
    name: str
    seed: int
    recipe_digest: str
    recipe: dict[str, JsonValue]
    sessions: tuple[Session, ...] = Field(min_length=1)
    inputs: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Digests of what stages read from outside the run, by stage and name."""

    @computed_field
    @property
    def started_at(self) -> datetime:
        """When the first session began."""
        return self.sessions[0].started_at

    @computed_field
    @property
    def ended_at(self) -> datetime | None:
        """When the latest session ended; None while it runs, and for ever if it was killed."""
        return self.sessions[-1].ended_at

    @classmethod
    def of(cls, name: str, recipe: dict[str, JsonValue]) -> Self:
        """Return the manifest of a run that begins now."""
        return cls(name=name, sessions=(Session.begin(),), **_of_recipe(recipe))

    def resumed(self, changes: Mapping[str, JsonValue] | None = None) -> Self:
        """Return it with another session, in which some fields of the recipe have other values."""
        return self.model_copy(update={"sessions": (*self.sessions, Session.begin(changes))})

    def ended(self, *, by: str | None) -> Self:
        """Return it with the latest session ended now."""
        last = self.sessions[-1].model_copy(update={"ended_at": datetime.now(UTC), "ended_by": by})
        return self.model_copy(update={"sessions": (*self.sessions[:-1], last)})

    def with_recipe(self, recipe: dict[str, JsonValue]) -> Self:
        """Return it with another recipe."""
        return self.model_copy(update=_of_recipe(recipe))

    def changed_inputs(self, inputs: Mapping[str, str]) -> list[str]:
        """Return the names of inputs that earlier stages read with another digest."""
        known = {(name, digest) for stage in self.inputs.values() for name, digest in stage.items()}
        names = {name for name, _ in known}
        return [name for name, digest in inputs.items() if name in names and (name, digest) not in known]


def _of_recipe(recipe: dict[str, JsonValue]) -> dict[str, Any]:
    return {"seed": recipe["seed"], "recipe_digest": digest_of(recipe), "recipe": recipe}


def plain_recipe(recipe: BaseModel) -> dict[str, JsonValue]:
    """Return a recipe as the JSON values that the manifest keeps."""
    plain = recipe.model_dump(mode="json")
    if type(plain.get("seed")) is not int:
        raise TypeError(f"a run's recipe needs an integer 'seed'; {type(recipe).__name__} has {plain.get('seed')!r}")
    return json.loads(json_text(plain, subject="the recipe"))


def recipe_differences(stored: dict[str, JsonValue], recipe: BaseModel) -> list[Difference]:
    """Return where the given recipe departs from the stored one.

    A field that was added after the run began counts as stored with its default, so a run survives an upgrade; the
    default of a new field must therefore mean what happened without it. A field that was removed is a difference.
    """
    try:
        completed = plain_recipe(type(recipe).model_validate_json(json.dumps(stored)))
    except ValidationError:
        completed = stored
    return differences(completed, plain_recipe(recipe))


def allowed_changes(
    folder: Path, stored: dict[str, JsonValue], recipe: BaseModel, *, changed: Collection[str] = ()
) -> dict[str, JsonValue]:
    """Return the fields in which a recipe departs from the stored one, or raise if a run may not go on with them.

    Allowed are the keys in the recipe's CHANGEABLE, which decide how a run is computed and not what, and `changed`,
    on which nothing in the folder depends.
    """
    found = recipe_differences(stored, recipe)
    refused = [one for one in found if one.key not in changed and not is_changeable(one.key, recipe)]
    if refused:
        raise RunError(
            f"{folder} was started with another recipe (stored → given):\n{format_differences(refused)}\n"
            "Continue it with the stored recipe, or start the new one in another folder"
        )
    return {one.key: None if one.right is ABSENT else cast("JsonValue", one.right) for one in found}


def is_changeable(key: str, recipe: BaseModel) -> bool:
    """Whether a run may go on with another value of this key."""
    changeable: tuple[str, ...] = getattr(type(recipe), "CHANGEABLE", ())
    return any(key == one or key.startswith((f"{one}.", f"{one}[")) for one in changeable)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the folder's manifest."""
    plain = manifest.model_dump(mode="json")
    replace_text(folder / FILE, json_text(plain, subject="the manifest", indent=2) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Return the folder's manifest, or raise a RunError that says what is wrong with it."""
    path = folder / FILE
    try:
        plain = json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}; fix its permissions or its disk") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"it is not JSON ({error})") from error
    found = cast("dict[str, Any]", plain).get("format") if isinstance(plain, dict) else None
    if type(found) is not int:
        raise _damaged(path, "it has no format number")
    if found != FORMAT:
        which = "a newer" if found > FORMAT else "an older"
        raise RunError(f"{path} has format {found}, made by {which} mada; use that version, or another folder")
    try:
        manifest = Manifest.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if digest_of(manifest.recipe) != manifest.recipe_digest:
        raise _damaged(path, "its recipe does not have its digest")
    return manifest


def _damaged(path: Path, reason: str) -> RunError:
    return RunError(f"{path} is damaged: {reason}. Restore it from a copy, or start in another folder")
