"""The commands of `tidegate cluster`."""
