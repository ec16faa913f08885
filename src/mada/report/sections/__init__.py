"""Sections of a run's report, each made from stored records by one function; None where there is nothing to say."""
