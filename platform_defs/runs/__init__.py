"""A run's systems, opened; `tidegate plan`: what the next batch would read and do."""
