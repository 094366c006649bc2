"""Blocks of messages and the Arrow arrays made from them, for all formats."""
