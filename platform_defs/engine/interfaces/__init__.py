"""The protocols through which the engine uses other systems."""
