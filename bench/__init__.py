"""Benchmarks: ratios of paths within one run on one machine. Never timed tests."""
