"""Postgres for tests: with TLS, behind a pooler, with few rights, and restored."""
