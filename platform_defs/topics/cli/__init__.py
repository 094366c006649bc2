"""The commands of `tidegate topics`."""
