"""The commands of `tidegate demo`."""
