"""The client of the schema registry."""
