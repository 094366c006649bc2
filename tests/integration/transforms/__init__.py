"""Tests of transforms: row-local, in separate sessions, and Spark's traps."""
