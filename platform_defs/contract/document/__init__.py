"""The YAML of a contract: reading it with lines for errors, and writing values back."""
