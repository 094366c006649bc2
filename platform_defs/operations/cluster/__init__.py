"""Brokers are observed, and replicas are moved."""
