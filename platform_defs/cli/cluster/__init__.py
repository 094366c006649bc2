"""Commands about brokers and replicas."""
