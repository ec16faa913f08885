"""Debate: what agents see (P1–P3), who speaks when (I1), what was said, and the verdict (I2)."""
