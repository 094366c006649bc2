"""What `tidegate doctor` asks Kafka: each address by hand, then topics, reading and writing by clients."""
