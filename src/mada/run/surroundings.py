"""What a result depends on besides its recipe: packages, the code's commit, the hardware, the command typed.

All of it is found out without importing a heavy package, and what cannot be found out is None: a run never
fails over it. No environment variable is ever recorded. From the command line, values whose name says secret
(token, key, password …), values in the form of an access token, and users, passwords and queries of addresses
are replaced by ***.
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

# What can change a result. Only those installed are recorded.
PACKAGES = (
    "accelerate",
    "datasets",
    "latex2sympy2-extended",
    "math-verify",
    "numpy",
    "peft",
    "pydantic",
    "ray",
    "safetensors",
    "scipy",
    "statsmodels",
    "sympy",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
    "vllm",
)
CPUINFO = Path("/proc/cpuinfo")
_SECONDS = 10.0
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "bearer", "credential", "credentials", "key"}
    | {"passphrase", "passwd", "password", "pwd", "secret", "token"}
)
_TOKEN_FORMS = re.compile(
    r"\b(hf_|sk-|gsk_|nvapi-|pypi-|xai-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|(?i:bearer )\s*)[\w.-]{8,}"
)
_RANDOM_TEXT = re.compile(
    r"(?=[A-Za-z]*\d)(?=[a-z\d]*[A-Z])(?=[A-Z\d]*[a-z])[A-Za-z\d]{20,}|\b([a-f\d]{32}|[a-f\d]{64})\b"
    r"|\beyJ[\w-]{8,}\.[\w.-]+"
)
"""Letters of both cases and digits in a row, as keys have them and names do not; as many hexadecimal digits as keys
have, and commits, with 40, do not; signed web tokens."""
_ADDRESS_SECRETS = re.compile(r"(?<=://)[^@\s]+(?=@)|(?<=\?)[^\s?]*=[^\s]*")
_HIDDEN = "***"


class Frozen(BaseModel):
    """A value of the manifest; keys that a later mada adds are passed over."""

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
    """Versions of mada, Python and the installed packages of PACKAGES."""
    versions = {"mada": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def current_commit() -> Commit | None:
    """The working directory's commit; None outside a repository, without git, or before the first commit."""
    # Untracked files do not count: run folders are usually among them.
    lines = _output_of(["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"])
    if lines is None:
        return None
    ids = [line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")]
    if not ids or ids[0] == "(initial)":
        return None
    return Commit(id=ids[0], dirty=any(not line.startswith("#") for line in lines))


def current_hardware() -> Hardware:
    """This machine's processor, memory and NVIDIA cards."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Hardware(cpu=_cpu_model(), cores=os.cpu_count(), memory_mib=memory >> 20, gpus=_gpus())


def command_line(arguments: Sequence[str]) -> tuple[str, ...]:
    """The command as typed, without secrets and without the folder its program lies in."""
    shown: list[str] = []
    hide_next = False
    for position, argument in enumerate(arguments):
        name, *value = re.split("([=:])", argument, maxsplit=1)
        if hide_next and not argument.startswith("-"):
            shown.append(_HIDDEN)
            hide_next = False
            continue
        hide_next = _says_secret(name) and argument.startswith("-") and not value
        if value and _says_secret(name):
            shown.append(name + value[0] + _HIDDEN)
        else:
            text = Path(argument).name if position == 0 else argument
            for secret in (_ADDRESS_SECRETS, _TOKEN_FORMS, _RANDOM_TEXT):
                text = secret.sub(_HIDDEN, text)
            shown.append(text)
    return tuple(shown)


def _says_secret(name: str) -> bool:
    # Whole words only: --max-tokens is a number, --hf-token is not.
    return not _SECRET_WORDS.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))


def _cpu_model() -> str:
    text = CPUINFO.read_text(errors="replace") if CPUINFO.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def _gpus() -> tuple[Gpu, ...]:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    rows = [[field.strip() for field in line.split(",")] for line in _output_of(query) or ()]
    return tuple(
        Gpu(name=row[0], memory_mib=int(row[1]) if row[1].isdigit() else None, driver=row[2])
        for row in rows
        if len(row) == 3
    )


def _output_of(command: Sequence[str]) -> list[str] | None:
    """The lines a program prints; None when it is missing, fails or does not answer in time."""
    program = shutil.which(command[0])
    if program is None:
        return None
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            check=True,
            timeout=_SECONDS,
            env=environment,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()
