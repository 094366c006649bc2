"""`tidegate demo`: the whole way once, and the demonstrations of delivery and of consumer groups."""
