"""One batch, from plan to commit: read `batch.py` first."""
