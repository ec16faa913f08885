"""Cut a training set into disjoint subsets and a validation set.

Duplicates are dropped, the other problems are ordered by a digest of seed and text, and that order is cut. So the split
does not depend on the order of rows, the machine or the Python version. Validation is cut first: it stays the same when
subsets are added or resized, and adding a subset leaves the others as they are.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from mada.errors import DataError
from mada.problems.contamination import text_key
from mada.problems.problem import Problem

VALIDATION = "validation"
"""The name of the part all agents share."""


@dataclass(frozen=True, slots=True)
class Part:
    """A named set of problems, by id, in the split's seeded order."""

    name: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Disjoint parts of one training set, and what happened to the other rows.

    `duplicates` rows were dropped because an equal problem was kept; in `conflicts` of the groups of equal
    problems the answers differ; `unused` problems are in no part.
    """

    parts: tuple[Part, ...]
    seed: int
    rows: int
    duplicates: int
    conflicts: int
    unused: int
    unanswered: int = 0
    """Rows that were left out because they have no answer."""

    @property
    def digest(self) -> str:
        """The same for the same parts on every machine: what to compare two splits by."""
        content = json.dumps([[part.name, part.ids] for part in self.parts], ensure_ascii=True)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def ids(self, name: str) -> tuple[str, ...]:
        """The ids of one part."""
        return {part.name: part.ids for part in self.parts}[name]

    def to_json(self) -> str:
        """The split as a file's text, its digest included."""
        return json.dumps({**asdict(self), "digest": self.digest}, indent=1, ensure_ascii=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Split":
        """Read what `to_json` wrote; a text that is damaged or was edited does not match its digest."""
        try:
            record = json.loads(text)
            parts = tuple(Part(part["name"], tuple(part["ids"])) for part in record.pop("parts"))
            digest = record.pop("digest")
            split = cls(parts=parts, **record)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"not a split ({error}); make it again with `mada problems split`") from error
        if split.digest != digest:
            raise DataError(
                f"the split's digest is {split.digest}, but the file says {digest}; "
                "it was changed: make it again with `mada problems split`"
            )
        return split


def split_problems(
    problems: Sequence[Problem], *, subsets: int, subset_size: int | Literal["all"], validation_size: int, seed: int
) -> Split:
    """Drop duplicates and cut `subsets` × `subset_size` problems and `validation_size` more.

    "all" makes the subsets as large as they can be, all of one size.
    Of equal problems the one with the smallest id is kept, even when their answers differ (that is counted).
    """
    if subsets < 1 or (subset_size != "all" and subset_size < 1) or validation_size < 0:
        raise DataError(
            f"cannot cut {subsets} subsets of {subset_size} and {validation_size} for validation; "
            "wanted at least one subset of at least one problem"
        )
    for name, count in Counter(problem.id for problem in problems).most_common(1):
        if count > 1:
            raise DataError(f"the id {name!r} occurs twice; a split needs ids that are unique")
    groups: defaultdict[str, list[Problem]] = defaultdict(list)
    for problem in problems:
        groups[text_key(problem.question)].append(problem)
    if subset_size == "all":
        subset_size = max(1, (len(groups) - validation_size) // subsets)
    wanted = subsets * subset_size + validation_size
    if wanted > len(groups):
        raise DataError(
            f"{subsets} × {subset_size:,} + {validation_size:,} = {wanted:,} problems are wanted, but of "
            f"{len(problems):,} only {len(groups):,} differ in text; ask for smaller or fewer subsets"
        )
    ordered = sorted(groups, key=lambda text: _seeded_digest(text, seed))
    ids = tuple(min(problem.id for problem in groups[text]) for text in ordered)
    ends = [validation_size + number * subset_size for number in range(subsets + 1)]
    cut = [Part(f"subset-{number}", ids[ends[number - 1] : ends[number]]) for number in range(1, subsets + 1)]
    return Split(
        parts=(*cut, Part(VALIDATION, ids[:validation_size])),
        seed=seed,
        rows=len(problems),
        duplicates=len(problems) - len(groups),
        conflicts=sum(len({text_key(problem.answer) for problem in group}) > 1 for group in groups.values()),
        unused=len(groups) - wanted,
    )


def seeded_order(problems: Iterable[Problem], seed: int) -> list[Problem]:
    """Problems in an order that depends on the seed, their texts and ids, not on the order they came in."""
    return sorted(problems, key=lambda problem: (_seeded_digest(text_key(problem.question), seed), problem.id))


def _seeded_digest(text: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}\0{text}".encode(), digest_size=16).digest()
