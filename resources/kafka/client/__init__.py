"""Clients of Kafka: options, logins, consumers, and what errors mean."""
