"""Randomness by path: every random choice has a name; its stream depends on the root seed and that name.

`rng(seed, "debate", 3, problem.id)` gives the same numbers whatever ran before it, in which order, on how
many processes and on which machine. That is what lets an interrupted run end like an uninterrupted one.

The hash is SHA-256 over parts written as type, length, content, so ("a", "b") is not ("ab",) and 1 is not
"1". Python's own `hash()` is salted per process and is never used. The bit generator is named (PCG64) because
numpy may change its default. numpy keeps PCG64's raw bits for ever; how a distribution turns bits into values
may change between numpy versions, which the manifest records.
"""

import hashlib
import operator
from typing import SupportsIndex

import numpy as np

# Seeds are kept below 2^63, so they fit the signed 64-bit seeds of torch, vLLM and OpenAI-compatible servers.
SEED_BITS = 63


def seed_for(root: SupportsIndex, *path: str | SupportsIndex) -> int:
    """Return the seed of a path under the root seed, from 0 to 2^63 − 1."""
    digest = hashlib.sha256(b"".join(_encoded(part) for part in (operator.index(root), *path))).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


def rng(root: SupportsIndex, *path: str | SupportsIndex) -> np.random.Generator:
    """Return a fresh generator for a path under the root seed, seeded with its `seed_for`."""
    return np.random.Generator(np.random.PCG64(seed_for(root, *path)))


def _encoded(part: str | SupportsIndex) -> bytes:
    if isinstance(part, bool):
        raise TypeError(f"a seed's path is made of text and whole numbers, not {part}; write its meaning as text")
    if isinstance(part, str):
        kind, content = b"s", part.encode("utf-8", "surrogatepass")
    else:
        kind, content = b"i", str(operator.index(part)).encode()
    return kind + len(content).to_bytes(8, "big") + content
