"""Kafka in Dagster: the consumer groups that read topics."""
