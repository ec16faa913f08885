"""What two recipes do not agree on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mada.recipe.keys import leaves, value_at
from mada.recipe.schema import Recipe
from mada.recipe.wording import plain, shortened

_LONGEST = 48
_LEAD = 16


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that two recipes fill differently."""

    key: str
    left: Any
    right: Any

    def __str__(self) -> str:
        left, right = self.shown()
        return f"{self.key}: {left} → {right}"

    def shown(self) -> tuple[str, str]:
        """Return both values on one line each; long texts are cut so that where they part can be seen."""
        left, right = plain(self.left), plain(self.right)
        if max(len(left), len(right)) > _LONGEST:
            start = _first_difference(left, right) - _LEAD
            if start > 0:
                left, right = f"…{left[start:]}", f"…{right[start:]}"
        return shortened(left, longest=_LONGEST), shortened(right, longest=_LONGEST)


def _first_difference(left: str, right: str) -> int:
    # One text may be the beginning of the other, so the pairs alone need not differ.
    pairs = zip(left, right, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))


def diff_recipes(left: Recipe, right: Recipe) -> list[Difference]:
    """Return the fields that differ, in the order of the schema; an empty list for equal recipes."""
    pairs = [Difference(leaf.key, value_at(left, leaf.path), value_at(right, leaf.path)) for leaf in leaves()]
    return [pair for pair in pairs if pair.left != pair.right]


def format_differences(differences: Iterable[Difference]) -> str:
    """Write differences one per line, in columns: key, left, right."""
    rows = [(difference.key, *difference.shown()) for difference in differences]
    key_width = max((len(key) for key, _, _ in rows), default=0)
    left_width = max((len(left) for _, left, _ in rows), default=0)
    return "\n".join(f"{key:<{key_width}}  {left:<{left_width}}  →  {right}" for key, left, right in rows)
