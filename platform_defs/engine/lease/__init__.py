"""A run's lease of a pipeline: taken over, its tables claimed, its contract pinned."""
