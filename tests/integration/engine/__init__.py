"""Tests of a batch from plan to commit: whole or not at all."""
