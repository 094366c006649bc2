"""Faults of brokers, topics, transactions and registries."""
