"""The commands `tidegate peek` and `tidegate send`."""
