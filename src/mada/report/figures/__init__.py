"""Figures: what each shows as a value, and how it is drawn once by matplotlib for print and page."""
