"""The built-in task: multi-step arithmetic as sums, instructions and short stories, seeded, exact and endless (D2).

It is what the embedded model can do and does badly enough to learn: a whole run of the method fits into minutes.
"""

from mada.problems.abacus.problems import SETS, AbacusSet, abacus_problems

__all__ = ["SETS", "AbacusSet", "abacus_problems"]
