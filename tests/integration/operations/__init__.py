"""Replay, prune, settle, adopt, plan, doctor, and migrations."""
