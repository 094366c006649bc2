"""Faults of processes: runs, Spark, Dagster and clocks."""
