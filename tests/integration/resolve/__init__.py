"""Tests of replay, prune, settle, adopt, plan, doctor, and migrations."""
