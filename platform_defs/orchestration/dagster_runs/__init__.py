"""Dagster's runs, and the names of assets, jobs and checks."""
