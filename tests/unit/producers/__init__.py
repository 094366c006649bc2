"""Producers' options, presets and undelivered messages."""
