"""The planner: which offsets the next batch or a replay reads. Pure functions."""
