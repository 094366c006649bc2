"""The commands of `tidegate contract`."""
