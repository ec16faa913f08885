"""The statistics of an evaluation, as functions of numbers alone (E1–E3, B3).

| question                                          | answered by                                             |
|---------------------------------------------------|---------------------------------------------------------|
| how good, over seeds?                             | `estimate`                                              |
| how good, over problems?                          | `bootstrap_mean`                                        |
| does one beat the other, over seeds?              | `welch`, `welch_from_moments`, `compare_all`            |
| does one beat the other, over the same problems?  | `paired_answers`, `mcnemar`, `paired_permutation`,      |
|                                                   | `bootstrap_difference`                                  |
| and after so many tests?                          | `holm`, `benjamini_hochberg`                            |
| could such a comparison have found it?            | `detectable_difference`, `detectable_difference_of_answers` |
| what would k answers have reached?                | `pass_at_k`, `majority_at_k`                            |
| what was gained for what was trained?             | `gain_per_parameter`                                    |
"""

from mada.evaluation.statistics.at_k import majority_at_k, pass_at_k
from mada.evaluation.statistics.bootstrap import Interval, bootstrap_difference, bootstrap_mean
from mada.evaluation.statistics.comparison import CONFIDENCE, ROUNDING, STARS, Comparison
from mada.evaluation.statistics.corrections import benjamini_hochberg, holm
from mada.evaluation.statistics.gain import gain_per_parameter
from mada.evaluation.statistics.paired import PairedAnswers, PairedCounts, mcnemar, paired_answers, paired_permutation
from mada.evaluation.statistics.power import detectable_difference, detectable_difference_of_answers
from mada.evaluation.statistics.welch import Estimate, compare_all, estimate, welch, welch_from_moments

__all__ = [
    "CONFIDENCE",
    "ROUNDING",
    "STARS",
    "Comparison",
    "Estimate",
    "Interval",
    "PairedAnswers",
    "PairedCounts",
    "benjamini_hochberg",
    "bootstrap_difference",
    "bootstrap_mean",
    "compare_all",
    "detectable_difference",
    "detectable_difference_of_answers",
    "estimate",
    "gain_per_parameter",
    "holm",
    "majority_at_k",
    "mcnemar",
    "paired_answers",
    "paired_permutation",
    "pass_at_k",
    "welch",
    "welch_from_moments",
]
