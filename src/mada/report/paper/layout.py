"""What the paper's tables have in common: groups of systems, rows that compare, notes, and shading.

A shaded cell is as deep as its value is large: |value| / scale × 100, rounded, of the colour over light gray. What the
scale is differs from table to table of the paper. These readings give its printed intensities from its printed numbers
(and `tests/unit/report/test_shading.py` holds them to it, slips included):

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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from mada.evaluation.statistics import ROUNDING, Comparison, Estimate
from mada.evaluation.summary import Summary, SystemSummary
from mada.report.document import Cell, Column, Row, Shade, columns
from mada.report.numbers import NOTHING, p_text, points_text, uncertain_text
from mada.text import counted

MEASURED = (
    "Accuracy is the paper's measure, for every system the mean over the answers of its last round; a vote's are its "
    "single samples. The report's own tables compare verdicts: what votes, judges and debates decide in the end."
)
BRACKETS = "in brackets the standard error over seeds; without a point it counts in the last digit"
"""Explains `80.1(2.4)` and `41.9(3)`."""
STARS_EXPLAINED = "* p < 0.05, ** p < 0.01, *** p < 0.001."
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

    def groups(
        self, belongs: Callable[[SystemSummary], bool] = lambda _: True
    ) -> tuple[tuple[SystemSummary, ...], ...]:
        """Return base, other untrained systems, trained ones and reference, those that belong; no group is empty."""

        def group(one: SystemSummary) -> int:
            if one is self.base:
                return 0
            if one is self.summary.reference:
                return 3
            return 1 if one.system.parameters == 0 else 2

        shown = [one for one in self.summary.systems if belongs(one)]
        groups = (tuple(one for one in shown if group(one) == number) for number in range(4))
        return tuple(found for found in groups if found)


@dataclass(frozen=True, slots=True)
class Compared:
    """A system's accuracy and how it compares with another; None for the one that others are compared with."""

    title: str
    accuracy: Estimate
    comparison: Comparison | None


def comparison_columns(first: str, *, accuracy: str = "accuracy") -> tuple[Column, ...]:
    """Return the columns of a comparison: names, accuracies, differences, intervals and p."""
    return (*columns(first, kind="text"), *columns(accuracy, "difference", "95 % interval", "p"))


def comparison_row(one: Compared, *, accuracy: Shade | None = None, difference: Shade | None = None) -> Row:
    """Return a row with these shades for its accuracy and its difference."""
    measured = Cell(uncertain_text(one.accuracy.mean, one.accuracy.standard_error), shade=accuracy)
    compared = one.comparison
    if compared is None:
        return Cell(one.title), measured, *[Cell(NOTHING)] * 3
    points = uncertain_text(compared.difference, compared.standard_error, signed=True)
    interval = NOTHING
    if compared.low is not None and compared.high is not None:
        interval = f"[{points_text(compared.low)}, {points_text(compared.high)}]"
    p = Cell(p_text(compared.p), compared.stars)
    return Cell(one.title), measured, Cell(points, shade=difference), Cell(interval), p


def shaded_groups(groups: Sequence[Sequence[Compared]]) -> list[tuple[Row, ...]]:
    """Return rows with accuracy and difference shaded alike; the largest significant difference is the scale."""
    scale = largest_significant(one.comparison for group in groups for one in group)

    def shaded(one: Compared) -> Row:
        shade = by_difference(one.comparison, scale=scale)
        return comparison_row(one, accuracy=shade, difference=shade)

    return [tuple(map(shaded, group)) for group in groups]


def averaged(seeds: int, *, what: str = "Percent") -> str:
    """Say what the numbers of a table are, over how many seeds, and what the brackets behind them mean."""
    return f"{what}, mean over {counted(seeds, 'seed')}; {BRACKETS}." if seeds > 1 else f"{what}, with one seed."


def about_the_test(seeds: int, *, benchmarks: int) -> str:
    """Say which test was made on how many seeds, or that one seed allows none."""
    if seeds < 2:
        return "One seed has no standard error and allows no test."
    averages = "averages over the benchmarks" if benchmarks > 1 else "accuracies"
    return f"p: Welch's two-sided t-test of per-seed {averages} ({counted(seeds, 'seed')} per system)."


def comparison_notes(what: str, shading: str, *, seeds: int, benchmarks: int) -> tuple[str, ...]:
    """Return the notes of a table of comparisons: what is compared, the test, and the shading where there is a test."""
    test = about_the_test(seeds, benchmarks=benchmarks)
    if seeds < 2:
        return what, test
    return what, f"{test} {STARS_EXPLAINED} Not corrected for the number of tests.", shading


def is_significant(comparison: Comparison | None) -> bool:
    """Say whether a difference was tested and found: p < .05."""
    return comparison is not None and bool(comparison.stars)


def largest(values: Iterable[float]) -> float:
    """Return the size of the largest value, whatever its sign; 0 without any."""
    return max((abs(value) for value in values), default=0.0)


def largest_significant(comparisons: Iterable[Comparison | None]) -> float:
    """Return the size of the largest difference that is shaded."""
    return largest(one.difference for one in comparisons if one is not None and is_significant(one))


def by_sign(value: float, *, scale: float) -> Shade | None:
    """Shade what is better (above 0) green and what is worse red; nothing for no difference."""
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


def _percent(part: float, total: float) -> int:
    """Return a share in whole percent, halves upwards; 100 on a scale without any length."""
    if total <= 0:
        return 100
    # Shares like 0.2 / 1.6 are halves but for the last digits of their floats.
    return min(100, max(0, int(100 * part / total + 0.5 + 1e-9)))
