"""The Kafka checks of `tidegate doctor`: each address by hand, then topics, reading and writing by clients."""
