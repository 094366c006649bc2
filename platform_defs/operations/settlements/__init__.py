"""Resolution of a halt: shown first, then done in one transaction."""
