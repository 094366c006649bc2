"""Lineage events: sent to a server, or kept in a file."""
