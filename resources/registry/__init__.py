"""The schema registry: its client, and what is kept of its schemas."""
