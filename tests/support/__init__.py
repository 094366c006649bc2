"""Test support shared by several folders: the real systems, commands, and waiting for events."""
