"""Topics are planned, applied, listed, imported and deleted."""
