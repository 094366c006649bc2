"""Kafka for tests: a secured broker, other clients, and what stands in for a broker."""
