"""What every comparison of two systems comes to, and when it counts as evidence (E2)."""

from dataclasses import dataclass

CONFIDENCE = 0.95
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
# Averages of the same shares in another order differ in their last digits; that is no evidence of anything.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """By how much the first sample's mean exceeds the second's: 95 % interval and p-value, two-sided.

    What a test does not give, or the samples are too small for, is None.
    """

    difference: float
    standard_error: float | None
    low: float | None
    high: float | None
    p: float | None

    @property
    def stars(self) -> str:
        """One, two or three stars at .05, .01 and .001, none above or when there is no p."""
        return next((stars for limit, stars in STARS if self.p is not None and self.p < limit), "")
