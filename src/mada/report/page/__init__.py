"""The page of a report: one file with tables, figures and every kept debate, which needs no network."""
