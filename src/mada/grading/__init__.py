"""Grading: from a reply to its final answer, to whether it equals the reference, to the rewards (R1–R3)."""

from mada.grading.extraction import extract_answer
from mada.grading.grader import Grade, Grader, Reason

__all__ = ["Grade", "Grader", "Reason", "extract_answer"]
