"""The manifest: what a run is, and under which circumstances each of its sessions ran.

`manifest.json` holds the resolved recipe once, and one session per time a process opened the run, so a run
resumed on another machine or with another version shows both. A session without an end was killed, or is
running now.
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
from mada.digest import digest_of
from mada.errors import RunError
from mada.run.differences import ABSENT, Difference, differences, listed
from mada.run.json_text import json_text
from mada.run.surroundings import (
    Commit,
    Frozen,
    Hardware,
    command_line,
    current_commit,
    current_hardware,
    package_versions,
)

FORMAT = 1
FILE = "manifest.json"


class Session(Frozen):
    """One process's time with the run."""

    started_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None  # the exception's type when one ended the session
    host: str
    pid: int
    command: tuple[str, ...]
    versions: dict[str, str]
    commit: Commit | None
    hardware: Hardware
    changes: dict[str, JsonValue] = Field(default_factory=dict)  # what this session had otherwise than the recipe

    @classmethod
    def begun_now(cls, changes: Mapping[str, JsonValue] | None = None) -> Self:
        """This process's session, starting now."""
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
        """The manifest of a run that begins now."""
        return cls(
            name=name,
            seed=cast("int", recipe["seed"]),
            recipe_digest=digest_of(recipe),
            recipe=recipe,
            sessions=(Session.begun_now(),),
        )

    def resumed(self, changes: Mapping[str, JsonValue] | None = None) -> Self:
        """With a session more, in which some fields of the recipe are others."""
        return self.model_copy(update={"sessions": (*self.sessions, Session.begun_now(changes))})

    def with_recipe(self, recipe: dict[str, JsonValue]) -> Self:
        """With another recipe from now on."""
        seed = cast("int", recipe["seed"])
        return self.model_copy(update={"seed": seed, "recipe_digest": digest_of(recipe), "recipe": recipe})

    def changed_inputs(self, inputs: Mapping[str, str]) -> list[str]:
        """Return the names of inputs that any stage has known with another digest."""
        known = {(name, digest) for stage in self.inputs.values() for name, digest in stage.items()}
        names = {name for name, _ in known}
        return [name for name, digest in inputs.items() if name in names and (name, digest) not in known]

    def with_inputs(self, stage: str, inputs: Mapping[str, str]) -> Self:
        """With the inputs of a stage added to those that it has."""
        own = {**self.inputs.get(stage, {}), **inputs}
        return self.model_copy(update={"inputs": {**self.inputs, stage: own}})

    def without_inputs(self, stage: str) -> Self:
        """Without the inputs of a stage that is to be done again."""
        return self.model_copy(update={"inputs": {name: own for name, own in self.inputs.items() if name != stage}})

    def ended(self, *, by: str | None) -> Self:
        """With the latest session ended now."""
        last = self.sessions[-1].model_copy(update={"ended_at": datetime.now(UTC), "ended_by": by})
        return self.model_copy(update={"sessions": (*self.sessions[:-1], last)})


def plain_recipe(recipe: BaseModel) -> dict[str, JsonValue]:
    """The recipe as the JSON values that the manifest keeps."""
    plain = recipe.model_dump(mode="json")
    if type(plain.get("seed")) is not int:
        raise TypeError(
            f"a run's recipe needs a whole number 'seed'; {type(recipe).__name__} has {plain.get('seed')!r}"
        )
    return json.loads(json_text(plain, subject="the recipe"))


def recipe_differences(stored: dict[str, JsonValue], recipe: BaseModel) -> tuple[Difference, ...]:
    """Where the given recipe departs from the stored one.

    A field that mada gained after the run began counts as stored with its default, so a run survives an
    upgrade; the default of a new field must therefore mean what mada did without it. Giving it another value
    is a difference. A field that mada has lost since is one too, because its effect cannot be had any more.
    """
    try:
        completed = plain_recipe(type(recipe).model_validate_json(json.dumps(stored)))
    except ValidationError:
        completed = stored
    # A model that ignores unknown fields drops those it has lost; they are put back to be seen.
    return differences(_with_lost_fields(completed, stored), plain_recipe(recipe))


def refuse_other_recipe(
    folder: Path, stored: dict[str, JsonValue], recipe: BaseModel, *, changed: Collection[str] = ()
) -> dict[str, JsonValue]:
    """Raise with the list of differences unless the recipe is the stored one, and return those that may be.

    A recipe's class names in CHANGEABLE the keys that decide how a run is computed and not what: who ran out of memory
    must be able to go on with fewer rows. `changed` are further keys that nothing in the folder depends on.
    """
    found = recipe_differences(stored, recipe)
    refused = [one for one in found if one.key not in changed and not _may_change(one.key, recipe)]
    if refused:
        raise RunError(
            f"{folder} was started with another recipe:\n{listed(refused)}\n"
            "Give it the stored recipe to continue it, or start the new one in another folder"
        )
    return {one.key: None if one.given is ABSENT else cast("JsonValue", one.given) for one in found}


def other_keys(stored: dict[str, JsonValue], recipe: BaseModel) -> tuple[str, ...]:
    """Return the keys in which a recipe differs from the stored one and that are not CHANGEABLE."""
    return tuple(one.key for one in recipe_differences(stored, recipe) if not _may_change(one.key, recipe))


def _may_change(key: str, recipe: BaseModel) -> bool:
    changeable: tuple[str, ...] = getattr(type(recipe), "CHANGEABLE", ())
    return any(key == one or key.startswith((f"{one}.", f"{one}[")) for one in changeable)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the folder's manifest."""
    plain = manifest.model_dump(mode="json")
    replace_text(folder / FILE, json_text(plain, subject="the manifest", indent=2) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The folder's manifest, or a RunError that says what is wrong with it."""
    path = folder / FILE
    try:
        plain = json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}; mend its permissions or its disk") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"it is not JSON ({error})") from error
    _refuse_other_format(path, plain)
    try:
        manifest = Manifest.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _damaged(path, f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error
    if digest_of(manifest.recipe) != manifest.recipe_digest:
        raise _damaged(path, "its recipe is not the one its digest was made of")
    return manifest


def _refuse_other_format(path: Path, plain: object) -> None:
    found = cast("dict[str, Any]", plain).get("format") if isinstance(plain, dict) else None
    if type(found) is not int:
        raise _damaged(path, "it has no format number")
    if found != FORMAT:
        which = "a newer" if found > FORMAT else "an older"
        raise RunError(
            f"{path} has format {found}, made by {which} mada; this one reads format {FORMAT}. "
            "Use that version for this run, or start in another folder"
        )


def _damaged(path: Path, reason: str) -> RunError:
    return RunError(
        f"{path} is damaged: {reason}. mada replaces this file as a whole, so another program or the disk "
        "did this; restore it from a copy, or start in another folder"
    )


def _with_lost_fields(completed: dict[str, JsonValue], stored: dict[str, JsonValue]) -> dict[str, JsonValue]:
    kept = dict(completed)
    for key, value in stored.items():
        inner = kept.get(key)
        if key not in kept:
            kept[key] = value
        elif isinstance(inner, dict) and isinstance(value, dict):
            kept[key] = _with_lost_fields(inner, value)
    return kept
