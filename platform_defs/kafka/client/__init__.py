"""Clients of Kafka: options, logins, logs, and what their refusals mean."""
