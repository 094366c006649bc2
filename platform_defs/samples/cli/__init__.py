"""The command `tidegate produce`."""
