"""Validation of messages by their contract, in plain Python, one by one and in blocks."""
