"""Who stands in the paper's tables, in which order, and what is the base that the others are held against.

The paper's base is the untrained model in the same debate. Here it is the untrained debate where there is one, else
the first untrained system, else the first system of all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from mada.evaluation.summary import Summary, SystemSummary
from mada.text import counted


@dataclass(frozen=True, slots=True)
class Lineup:
    """The shown systems of an evaluation: base, other untrained systems, trained ones, and the reference, in groups."""

    summary: Summary
    base: SystemSummary

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Choose the base among the shown systems."""
        systems = summary.systems
        untrained = [one for one in systems if one.system.parameters == 0]
        debates = [one for one in untrained if one.system.is_debate]
        return cls(summary, next(iter([*debates, *untrained, *systems])))

    @property
    def reference(self) -> SystemSummary:
        """The system that all others are compared with."""
        return self.summary.reference

    @property
    def groups(self) -> tuple[tuple[SystemSummary, ...], ...]:
        """The rows in their groups: base, untrained, trained, reference; empty groups are left out."""
        return self._grouped(self.summary.systems)

    def kept(self, belongs: Callable[[SystemSummary], bool]) -> tuple[tuple[SystemSummary, ...], ...]:
        """Return the same groups of those systems alone that belong into a table."""
        return self._grouped(one for one in self.summary.systems if belongs(one))

    def _grouped(self, systems: Iterable[SystemSummary]) -> tuple[tuple[SystemSummary, ...], ...]:
        groups: list[list[SystemSummary]] = [[], [], [], []]
        for one in systems:
            if one is self.base:
                place = 0
            elif one is self.reference:
                place = 3
            else:
                place = 1 if one.system.parameters == 0 else 2
            groups[place].append(one)
        return tuple(tuple(group) for group in groups if group)


MEASURED = (
    "Accuracy is the paper's measure, for every system the mean over the answers of its last round; a vote's are its "
    "single samples. The report's own tables compare verdicts: what votes, judges and debates decide in the end."
)
BRACKETS = "in brackets the standard error over seeds; without a point it counts in the last digit"
"""What `80.1(2.4)` and `41.9(3)` mean."""
STARS_EXPLAINED = "* p < 0.05, ** p < 0.01, *** p < 0.001."


def about_the_test(seeds: int, *, benchmarks: int) -> str:
    """Say which test was made on how many seeds, or that one seed allows none."""
    if seeds < 2:
        return "One seed has no standard error and allows no test."
    averages = "averages over the benchmarks" if benchmarks > 1 else "accuracies"
    return f"p: Welch's two-sided t-test of per-seed {averages} ({counted(seeds, 'seed')} per system)."


def averaged(seeds: int, *, what: str = "Percent") -> str:
    """Say what the numbers of a table are, over how many seeds, and what the brackets behind them mean."""
    return f"{what}, mean over {counted(seeds, 'seed')}; {BRACKETS}." if seeds > 1 else f"{what}, with one seed."
