"""The manifest: what a run is, and what each of its sessions ran with.

`manifest.json` holds the resolved recipe once, and one session per time a process opened the run, so a run resumed on
another machine or with another version shows both. A session without an end was killed, or is running now.
"""

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, computed_field

from mada import __version__
from mada.atomic import replace_text
from mada.difference import ABSENT, Difference, differences, format_differences
from mada.digest import digest_of
from mada.errors import RunError
from mada.runs.jsonl import accessible, first_error, json_text

FORMAT = 1
FILE = "manifest.json"
PACKAGES = (
    *("accelerate", "datasets", "latex2sympy2-extended", "math-verify", "numpy", "peft", "pydantic", "ray"),
    *("safetensors", "scipy", "statsmodels", "sympy", "tokenizers", "torch", "transformers", "trl", "vllm"),
)
"""Packages that can change a result; the installed ones are recorded."""
CPUINFO = Path("/proc/cpuinfo")
_SECONDS = 10.0
_HIDDEN = "***"
_SECRET_WORD = re.compile(
    r"(?:^|[^a-z0-9])(?:apikey|auth|authorization|bearer|credentials?|key|pass(?:phrase|wd|word)|pwd|secret|token)"
    r"(?![a-z0-9])",
    re.IGNORECASE,
)
"""Whole words only: --max-tokens is a number, --hf-token is not."""
_SECRET_SHAPE = re.compile(
    # the user and password, and the query, of an address
    r"(?<=://)[^@\s]+(?=@)|(?<=\?)[^\s?]*=[^\s]*"
    # tokens with a known prefix
    r"|\b(?:hf_|sk-|gsk_|nvapi-|pypi-|xai-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|(?i:bearer )\s*)[\w.-]{8,}"
    # letters of both cases and digits in a row, 32 or 64 hexadecimal digits (a commit has 40), signed web tokens
    r"|(?=[A-Za-z]*\d)(?=[a-z\d]*[A-Z])(?=[A-Z\d]*[a-z])[A-Za-z\d]{20,}|\b(?:[a-f\d]{32}|[a-f\d]{64})\b"
    r"|\beyJ[\w-]{8,}\.[\w.-]+"
)


class Frozen(BaseModel):
    """A value of the manifest; keys of a later version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Gpu(Frozen):
    """One graphics card, as its driver names it."""

    name: str
    memory_mib: int | None
    driver: str


class Hardware(Frozen):
    """The machine of one session."""

    cpu: str
    cores: int | None
    memory_mib: int | None
    gpus: tuple[Gpu, ...]


class Commit(Frozen):
    """The commit of the repository around the working directory; dirty when tracked files differ from it."""

    id: str
    dirty: bool


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
    def of(cls, name: str, recipe: BaseModel) -> Self:
        """Return the manifest of a run that begins now."""
        return cls(name=name, sessions=(Session.begin(),), **_of_recipe(recipe))

    def with_recipe(self, recipe: BaseModel) -> Self:
        """Return it with another recipe."""
        return self.model_copy(update=_of_recipe(recipe))

    def resumed(self, changes: Mapping[str, JsonValue] | None = None) -> Self:
        """Return it with another session, in which some fields of the recipe have other values."""
        return self.model_copy(update={"sessions": (*self.sessions, Session.begin(changes))})

    def ended(self, *, by: str | None) -> Self:
        """Return it with the latest session ended now."""
        last = self.sessions[-1].model_copy(update={"ended_at": datetime.now(UTC), "ended_by": by})
        return self.model_copy(update={"sessions": (*self.sessions[:-1], last)})


def _of_recipe(recipe: BaseModel) -> dict[str, Any]:
    plain = recipe.model_dump(mode="json")
    return {"seed": plain["seed"], "recipe_digest": digest_of(plain), "recipe": plain}


def recipe_differences(stored: dict[str, JsonValue], recipe: BaseModel) -> list[Difference]:
    """Return where the given recipe departs from the stored one.

    A field that was added after the run began counts as stored with its default, so a run survives an upgrade; the
    default of a new field must therefore mean what happened without it. A field that was removed is a difference.
    """
    try:
        completed = type(recipe).model_validate_json(json.dumps(stored)).model_dump(mode="json")
    except ValidationError:
        completed = stored
    return differences(completed, recipe)


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
        with accessible(path):
            plain = json.loads(path.read_bytes())
        found = plain.get("format")
        if found != FORMAT:
            raise RunError(f"{path} has format {found!r}, and this mada reads {FORMAT}; use another, or another folder")
        manifest = Manifest.model_validate(plain)
    except ValidationError as error:
        raise _damaged(path, first_error(error)) from error
    except (AttributeError, ValueError, RecursionError) as error:
        raise _damaged(path, f"it is not JSON ({error})") from error
    if digest_of(manifest.recipe) != manifest.recipe_digest:
        raise _damaged(path, "its recipe does not have its digest")
    return manifest


def _damaged(path: Path, reason: str) -> RunError:
    return RunError(f"{path} is damaged: {reason}. Restore it from a copy, or start in another folder")


def package_versions() -> dict[str, str]:
    """Return the versions of mada, Python and the installed PACKAGES."""
    versions = {"mada": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def current_commit() -> Commit | None:
    """Return the working directory's commit; None outside a repository, without git, or before the first commit."""
    # Untracked files do not count: run folders are usually among them.
    lines = _output_of(["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]) or []
    ids = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    if not ids or ids[0] == "(initial)":
        return None
    return Commit(id=ids[0], dirty=any(not line.startswith("#") for line in lines))


def current_hardware() -> Hardware:
    """Return this machine's processor, memory and NVIDIA cards."""
    text = CPUINFO.read_text(errors="replace") if CPUINFO.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    rows = [[field.strip() for field in line.split(",")] for line in _output_of(query) or ()]
    return Hardware(
        cpu=model[1].strip() if model else platform.machine(),
        cores=os.cpu_count(),
        memory_mib=memory >> 20,
        gpus=tuple(
            Gpu(name=row[0], memory_mib=int(row[1]) if row[1].isdigit() else None, driver=row[2])
            for row in rows
            if len(row) == 3
        ),
    )


def command_line(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command as typed, without secrets and without the folder of its program."""
    shown: list[str] = []
    before = ""
    for argument in arguments:
        name, *value = re.split("([=:])", argument, maxsplit=1)
        is_value_of_secret = before.startswith("-") and "=" not in before and _SECRET_WORD.search(before)
        if is_value_of_secret and not argument.startswith("-"):
            shown.append(_HIDDEN)
        elif value and _SECRET_WORD.search(name):
            shown.append(name + value[0] + _HIDDEN)
        else:
            shown.append(_SECRET_SHAPE.sub(_HIDDEN, argument if shown else Path(argument).name))
        before = argument
    return tuple(shown)


def _output_of(command: Sequence[str]) -> list[str] | None:
    """Return the lines a program prints; None when it is missing, fails or does not answer in time."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            check=True,
            timeout=_SECONDS,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()
