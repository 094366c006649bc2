"""`tidegate groups`: consumer groups, how far each has read; watched, reset and deleted."""
