"""A halt is resolved: shown first, then done in one transaction."""
