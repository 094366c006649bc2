"""Producers, presets and undelivered messages."""
