"""Tests of Dagster: runs, sensors, checks, its storage and its UI."""
