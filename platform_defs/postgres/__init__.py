"""Postgres itself: connections, sessions, and the live definition of tables."""
