"""The commands `tidegate stack` and `tidegate ui`."""
