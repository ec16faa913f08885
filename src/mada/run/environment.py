"""What a result depends on besides its recipe: package versions, commit, hardware and the command typed.

Nothing heavy is imported, and what cannot be found out is None. No environment variable is recorded, and secrets in
the command line (by name, by the form of an access token, or inside an address) are replaced by ***.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from mada import __version__

PACKAGES = (
    *("accelerate", "datasets", "latex2sympy2-extended", "math-verify", "numpy", "peft", "pydantic", "ray"),
    *("safetensors", "scipy", "statsmodels", "sympy", "tokenizers", "torch", "transformers", "trl", "vllm"),
)
"""Packages that can change a result; the installed ones are recorded."""
CPUINFO = Path("/proc/cpuinfo")
_SECONDS = 10.0
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "credential", "credentials", "key"}
    | {"passphrase", "passwd", "password", "pwd", "secret", "token"}
)
_SECRETS = (
    # the user and password, and the query, of an address
    re.compile(r"(?<=://)[^@\s]+(?=@)|(?<=\?)[^\s?]*=[^\s]*"),
    # tokens with a known prefix
    re.compile(
        r"\b(hf_|sk-|gsk_|nvapi-|pypi-|xai-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|(?i:bearer )\s*)[\w.-]{8,}"
    ),
    # letters of both cases and digits in a row, 32 or 64 hexadecimal digits (a commit has 40), signed web tokens
    re.compile(
        r"(?=[A-Za-z]*\d)(?=[a-z\d]*[A-Z])(?=[A-Z\d]*[a-z])[A-Za-z\d]{20,}|\b([a-f\d]{32}|[a-f\d]{64})\b"
        r"|\beyJ[\w-]{8,}\.[\w.-]+"
    ),
)
_HIDDEN = "***"


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
    hide_next = False
    for index, argument in enumerate(arguments):
        name, *value = re.split("([=:])", argument, maxsplit=1)
        # Whole words only: --max-tokens is a number, --hf-token is not.
        is_secret = not _SECRET_WORDS.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))
        if hide_next and not argument.startswith("-"):
            shown.append(_HIDDEN)
            hide_next = False
            continue
        hide_next = is_secret and argument.startswith("-") and not value
        if is_secret and value:
            shown.append(name + value[0] + _HIDDEN)
            continue
        text = Path(argument).name if index == 0 else argument
        for secret in _SECRETS:
            text = secret.sub(_HIDDEN, text)
        shown.append(text)
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
