"""How the paper shades its cells: a colour by sign or by size, and how much of it there is over light gray.

A cell is as deep as its value is large: |value| / scale × 100, rounded, of the colour over light gray. What the scale
is differs from table to table of the paper. These readings give its printed intensities from its printed numbers (and
`tests/unit/report/test_shading.py` holds them to it, slips included):

| table                       | shaded                    | colour | scale                                    |
|-----------------------------|---------------------------|--------|------------------------------------------|
| 1, results                  | p < .05, against the base | sign   | highest minus lowest of the column       |
| 2, significance             | p < .05                   | sign   | largest difference that is shaded        |
| 3, trained parameters       | all that have any         | gray   | largest number                           |
| 3, gain per parameter       | all, untested             | sign   | largest gain or loss                     |
| 3, tokens                   | all                       | gray   | from the lowest (0) to the highest (100) |
| 3, critics' rates           | all, untested             | sign   | largest difference from the base's       |
| 4, ablations                | p < .05                   | sign   | largest difference that is shaded        |
| 5, single agent             | p < .05, against the base | sign   | largest difference that is shaded        |
| 5, difference from a debate | p < .05                   | gray   | from the smallest (0) to the largest     |
| all pairs, differences      | p < .05                   | sign   | largest difference that is shaded        |
| all pairs, p                | p < .05                   | gray   | 33, 67, 100 for one, two, three stars    |
"""

from collections.abc import Iterable, Sequence

from mada.evaluation.statistics import ROUNDING, Comparison
from mada.report.document import Shade

BY_STARS = {"": None, "*": Shade("gray", 33), "**": Shade("gray", 67), "***": Shade("gray", 100)}


def is_significant(comparison: Comparison | None) -> bool:
    """Say whether a difference was tested and found: p < .05."""
    return comparison is not None and bool(comparison.stars)


def largest(values: Iterable[float]) -> float:
    """Return the size of the largest value, whatever its sign; 0 without any."""
    return max((abs(value) for value in values), default=0.0)


def largest_significant(comparisons: Iterable[Comparison | None]) -> float:
    """Return the size of the largest difference that is shaded: the scale of those that share it."""
    return largest(one.difference for one in comparisons if one is not None and is_significant(one))


def span(values: Sequence[float]) -> float:
    """Return how far the highest value lies above the lowest; 0 without any."""
    return max(values) - min(values) if values else 0.0


def by_sign(value: float, *, scale: float) -> Shade | None:
    """Shade what is better (above 0) green and what is worse red, whether tested or not; nothing for no difference."""
    if abs(value) <= ROUNDING:
        return None
    return Shade("green" if value > 0 else "red", _percent(abs(value), scale))


def by_difference(comparison: Comparison | None, *, scale: float) -> Shade | None:
    """Shade a significant difference by its sign; one that is not, or could not be tested, stays white."""
    if comparison is None or not is_significant(comparison):
        return None
    return by_sign(comparison.difference, scale=scale)


def by_size(value: float, *, low: float = 0.0, high: float) -> Shade:
    """Shade a magnitude gray, where more is neither better nor worse: `low` is palest and `high` is deepest."""
    return Shade("gray", _percent(value - low, high - low))


def by_stars(comparison: Comparison) -> Shade | None:
    """Shade a p-value gray by its stars."""
    return BY_STARS[comparison.stars]


def _percent(part: float, whole: float) -> int:
    """Return a share in whole percent, halves upwards; everything of a scale without any length is at its top."""
    if whole <= 0:
        return 100
    # Shares like 0.2 / 1.6 are halves but for the last digits of their floats.
    return min(100, max(0, int(100 * part / whole + 0.5 + 1e-9)))
