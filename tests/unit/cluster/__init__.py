"""Brokers and replicas as values."""
