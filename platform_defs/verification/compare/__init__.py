"""Comparison of tables with the topic: appends, upserts, accumulates and dead letters."""
