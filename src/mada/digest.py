"""Digests of values and files: what tells a recipe, a problem or a model's weights from any other."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path


def digest_of(values: Mapping[str, object]) -> str:
    """Return the SHA-256 of a value's JSON with sorted keys: equal exactly when the values are."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content as it is now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_large_file(path: Path) -> str:
    """Return the SHA-256 of a file's content; a file of unchanged size and time is read once per process."""
    status = path.stat()
    return _digest_of_version(path.resolve(), status.st_size, status.st_mtime_ns)


@cache
def _digest_of_version(path: Path, _size: int, _modified_ns: int) -> str:
    return digest_of_file(path)
