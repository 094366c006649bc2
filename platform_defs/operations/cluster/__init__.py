"""Observation of brokers, and moves of replicas."""
