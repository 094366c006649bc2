"""Rows and dead letters, compared with what the messages should have become."""
