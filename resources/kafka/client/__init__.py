"""Clients of Kafka: options, logins, consumers, and the meaning of errors."""
