"""Batches, halts and new schemas are reported to Dagster."""
