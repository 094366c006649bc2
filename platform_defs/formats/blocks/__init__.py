"""Blocks of messages and the Arrow arrays that are made of them, whatever the format."""
