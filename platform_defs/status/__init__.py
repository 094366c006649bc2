"""`tidegate lag`: how far each pipeline is behind its topic."""
