"""The sections of a run's report, each made of stored records by one function; None where there is nothing to say."""
