"""Debate: the prompts agents see, and how they are fitted into a model's window (P1–P3)."""
