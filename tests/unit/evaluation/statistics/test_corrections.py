"""Adjusted p-values by hand and against statsmodels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from mada.evaluation.statistics import benjamini_hochberg, holm

P_VALUES = st.lists(st.none() | st.floats(0, 1), max_size=12)
# statsmodels collects garbage at every call of Holm, which takes long where torch is loaded.
FEW = settings(max_examples=25)
CORRECTIONS = pytest.mark.parametrize(("correction", "method"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])


def test_holm_by_hand():
    # In rising order times 3, 2, 1, never falling: .01·3, .03·2, .04·1 raised to .06. The None is not counted.
    assert holm([0.04, None, 0.01, 0.03]) == [pytest.approx(0.06), None, pytest.approx(0.03), pytest.approx(0.06)]


def test_benjamini_hochberg_by_hand():
    # In rising order times 3/1, 3/2, 3/3, lowered from the end: .03, .045 lowered to .04, .04.
    found = benjamini_hochberg([0.04, None, 0.01, 0.03])
    assert found == [pytest.approx(0.04), None, pytest.approx(0.03), pytest.approx(0.04)]


@CORRECTIONS
@FEW
@given(p_values=P_VALUES)
def test_none_passes_through_and_the_others_equal_statsmodels(correction, method, p_values):
    known = [p for p in p_values if p is not None]
    found = correction(p_values)
    assert [p is None for p in found] == [p is None for p in p_values]
    if known:
        expected = np.asarray(multipletests(known, method=method)[1]).tolist()
        assert [p for p in found if p is not None] == pytest.approx(expected)


@FEW
@given(P_VALUES)
def test_a_correction_never_lowers_and_holm_is_the_stricter(p_values):
    for p, lenient, strict in zip(p_values, benjamini_hochberg(p_values), holm(p_values), strict=True):
        if p is not None:
            assert lenient is not None
            assert strict is not None
            assert p <= lenient + 1e-12 <= strict + 2e-12 <= 1 + 2e-12


@CORRECTIONS
def test_what_is_no_p_value_is_refused(correction, method):
    with pytest.raises(ValueError, match=r"from 0 to 1, got 1\.5"):
        correction([0.1, 1.5])
