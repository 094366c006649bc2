"""The doctor's requests to Kafka: addresses, logins, topics, and trials of reading and writing."""
