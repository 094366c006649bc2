"""The schema registry: its client, and the schemas kept from it."""
