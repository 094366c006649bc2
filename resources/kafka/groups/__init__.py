"""Consumer groups in Kafka: read, moved and deleted, without ever joining one."""
