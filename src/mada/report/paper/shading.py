"""How the paper's tables group their systems and shade their cells.

A shaded cell is as deep as its value is large: |value| / scale × 100, rounded, of the colour over light gray. What the
scale is differs from table to table of the paper. These readings give its printed intensities from its printed numbers
(and `tests/unit/report/test_paper.py` holds them to it, slips included):

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

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from mada.evaluation.statistics import ROUNDING, Comparison
from mada.evaluation.summary import Summary, SystemSummary
from mada.report.document import Shade

BY_STARS = {"": None, "*": Shade("gray", 33), "**": Shade("gray", 67), "***": Shade("gray", 100)}


@dataclass(frozen=True, slots=True)
class PaperSystems:
    """The shown systems of an evaluation, and the base that others are compared with.

    The paper's base is the untrained model in the same debate. Here it is the untrained debate where there is one, else
    the first untrained system, else the first system of all.
    """

    summary: Summary
    base: SystemSummary

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Choose the base among the shown systems."""
        untrained = [one for one in summary.systems if one.system.parameters == 0]
        debates = [one for one in untrained if one.system.is_debate]
        return cls(summary, next(iter([*debates, *untrained, *summary.systems])))

    def groups(self, belongs: Callable[[SystemSummary], bool] = lambda _: True) -> list[list[SystemSummary]]:
        """Return base, other untrained systems, trained ones and reference, those that belong; no group is empty."""
        groups: list[list[SystemSummary]] = [[], [], [], []]
        for one in filter(belongs, self.summary.systems):
            if one is self.base:
                groups[0].append(one)
            elif one is self.summary.reference:
                groups[3].append(one)
            else:
                groups[1 if one.system.parameters == 0 else 2].append(one)
        return [group for group in groups if group]


def largest(values: Iterable[float]) -> float:
    """Return the size of the largest value, whatever its sign; 0 without any."""
    return max(map(abs, values), default=0.0)


def largest_significant(comparisons: Iterable[Comparison | None]) -> float:
    """Return the size of the largest difference that is shaded: those with p < .05."""
    return largest(one.difference for one in comparisons if one and one.stars)


def by_sign(value: float, *, scale: float) -> Shade | None:
    """Shade what is better (above 0) green and what is worse red; nothing for no difference."""
    if abs(value) <= ROUNDING:
        return None
    return Shade("green" if value > 0 else "red", _percent(abs(value), scale))


def by_difference(comparison: Comparison | None, *, scale: float) -> Shade | None:
    """Shade a significant difference by its sign; one that is not, or could not be tested, stays white."""
    return by_sign(comparison.difference, scale=scale) if comparison and comparison.stars else None


def by_size(value: float, *, low: float = 0.0, high: float) -> Shade:
    """Shade a magnitude gray, where more is neither better nor worse: `low` is palest and `high` is deepest."""
    return Shade("gray", _percent(value - low, high - low))


def _percent(part: float, total: float) -> int:
    """Return a share in whole percent, halves upwards; 100 on a scale without any length."""
    if total <= 0:
        return 100
    # Shares like 0.2 / 1.6 are halves but for the last digits of their floats.
    return min(100, max(0, int(100 * part / total + 0.5 + 1e-9)))
