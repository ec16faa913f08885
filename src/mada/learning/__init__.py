"""Learning: what a response is credited with (A1–A3)."""
