"""Transforms: row-local, in sessions of their own, and Spark's traps."""
