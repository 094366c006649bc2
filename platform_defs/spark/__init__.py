"""Spark: the session of a run, and what makes it start quickly."""
