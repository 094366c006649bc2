"""Lineage events: kept with each batch, sent to a server, or written to a file."""
