"""A batch from plan to commit: whole or not at all."""
