"""A cluster of brokers: balance, health, and reassignment of replicas. Pure."""
