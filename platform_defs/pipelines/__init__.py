"""Pipelines in Dagster: assets, checks, the sensor; turns in a run, and what it reports."""
