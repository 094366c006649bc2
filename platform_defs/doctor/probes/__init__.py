"""What the doctor asks Kafka: addresses, logins, topics, and trials of reading and writing."""
