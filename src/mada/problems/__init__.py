"""Problems: where they come from, how they are cut, and which of them are also in a benchmark."""

from mada.problems.contamination import Match, find_overlaps, remove_copies
from mada.problems.known import BENCHMARKS, KNOWN_SETS
from mada.problems.problem import Problem
from mada.problems.sources import load_problems
from mada.problems.split import Part, Split, split_problems

__all__ = [
    "BENCHMARKS",
    "KNOWN_SETS",
    "Match",
    "Part",
    "Problem",
    "Split",
    "find_overlaps",
    "load_problems",
    "remove_copies",
    "split_problems",
]
