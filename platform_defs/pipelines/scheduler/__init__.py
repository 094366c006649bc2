"""Decides which pipelines are due, and gives them turns in a run."""
