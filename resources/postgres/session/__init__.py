"""Connections to Postgres and the settings of every session."""
