"""How verify reads, validates and compares."""
