"""A cluster of brokers: how evenly it is loaded, whether it is well, and how its replicas move. Pure."""
