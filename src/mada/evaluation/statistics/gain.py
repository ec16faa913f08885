"""Accuracy gained for what was trained (E3)."""

# The paper's scale: a gain of one point by a hundred million parameters reads 100.
SCALE = 1e12


def gain_per_parameter(gain: float, parameters: int) -> float:
    """Return an accuracy gain over the base, as a fraction, per trainable parameter, times 1e12 (E3)."""
    if parameters < 1:
        raise ValueError(f"a gain per parameter needs trained parameters, got {parameters}; the base itself has none")
    return gain / parameters * SCALE
