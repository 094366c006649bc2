"""Kafka for tests: a secured broker, other clients, and fake servers."""
