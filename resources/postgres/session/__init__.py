"""Connections to Postgres and what every session is set to."""
