"""A contract as it is used: frozen dataclasses, column types, rules and values."""
