"""Tests of producers, presets and undelivered messages."""
