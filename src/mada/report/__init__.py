"""Reports: tables and pages made of a run's stored records alone."""
