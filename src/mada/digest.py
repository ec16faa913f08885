"""One digest for plain values, so that a recipe has the same name on the command line and in a run's manifest."""

import hashlib
import json
from collections.abc import Mapping


def digest_of(values: Mapping[str, object]) -> str:
    """Return the SHA-256 of a value's JSON with sorted keys: equal exactly when the values are."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
