"""The schema registry: its client, and the schemas that messages name."""
