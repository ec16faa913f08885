"""Evaluation: systems under test, the scores of their debates, and what those scores say about them (I2, E1–E3)."""
