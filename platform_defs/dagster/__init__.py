"""Shared by everything in Dagster: names of assets, runs, the instance's storage, a run's session."""
