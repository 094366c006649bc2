"""Kafka itself: clients, what brokers answer, and messages as a source. No command, no feature."""
