"""Faults of Postgres, its network and its disk, and changes that people make there."""
