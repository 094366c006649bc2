"""What is compared: the topic, read by a plain consumer, and one snapshot of Postgres."""
