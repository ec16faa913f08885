"""How small a true difference a planned comparison can find: what to know before calling two systems alike (B3)."""

import math

from scipy.special import nctdtr, stdtrit

POWER = 0.8
LEVEL = 0.05


def detectable_difference(
    spread: float, seeds: int, *, other_spread: float | None = None, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the smallest true difference of means that Welch's test over seeds finds with the given power.

    `spread` is the standard deviation of one system's per-seed averages (√seeds times its standard error), the other's
    is the same unless given. Averages are taken to be normal, and the measured spreads to be the true ones; a finding
    with the wrong sign is none.
    """
    from scipy.optimize import root_scalar  # not needed to read a report

    other = spread if other_spread is None else other_spread
    if seeds < 2 or spread < 0 or other < 0:
        raise ValueError(f"two seeds and a spread are the least a test needs, got {seeds} and {spread}, {other}")
    if not 0 < level < power < 1:
        raise ValueError(f"the power must lie between the level and 1, got power {power} and level {level}")
    error = math.hypot(spread, other) / math.sqrt(seeds)
    if error == 0:
        return 0.0
    shares = [part**2 / (spread**2 + other**2) for part in (spread, other)]
    freedom = (seeds - 1) / sum(share**2 for share in shares)
    critical = float(stdtrit(freedom, 1 - level / 2))

    def missing(shift: float) -> float:
        # The other tail is a finding with the wrong sign, and `nctdtr` has NaN so far out.
        return 1 - float(nctdtr(freedom, shift, critical)) - power

    highest = critical
    while missing(highest) < 0:
        highest *= 2
    return float(root_scalar(missing, bracket=(0.0, highest)).root) * error


def detectable_difference_of_answers(
    accuracy: float, problems: int, *, seeds: int, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the smallest difference that so many problems and seeds can find, before anything has been measured.

    Every answer is right with the same chance, independently, so a seed's average has the spread √(p(1−p)/problems).
    Problems that differ in difficulty spread seeds less, so this is cautious for the problems at hand; for a claim
    about other problems it is too hopeful, since seeds of one problem are alike.
    """
    if not 0 <= accuracy <= 1 or problems < 1:
        raise ValueError(f"needs an accuracy from 0 to 1 and at least one problem, got {accuracy} and {problems}")
    return detectable_difference(math.sqrt(accuracy * (1 - accuracy) / problems), seeds, power=power, level=level)
