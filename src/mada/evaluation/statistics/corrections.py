"""Corrections for testing many things at once: of 45 tests of nothing, two fall below .05 (B3).

A None is a test that could not be made. It stays None and does not count as one of the tests.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that the chance of any false finding among all stays below the level (Holm, 1979).

    For claims that each must stand, such as a method against every baseline.
    """
    return _adjusted(p_values, "holm")


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values so that the expected share of false findings among the findings stays below the level (1995).

    For exploration, such as the full pairwise matrix: more is found, and some of it may be false.
    """
    return _adjusted(p_values, "fdr_bh")


def _adjusted(p_values: Sequence[float | None], method: Literal["holm", "fdr_bh"]) -> list[float | None]:
    known = [p for p in p_values if p is not None]
    for p in known:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value is a number from 0 to 1, got {p}")
    if not known:
        return [None] * len(p_values)
    from statsmodels.stats.multitest import multipletests  # takes a second to import

    _, corrected, *_ = multipletests(known, method=method)
    adjusted = iter(np.asarray(corrected, dtype=np.float64).tolist())
    return [None if p is None else next(adjusted) for p in p_values]
