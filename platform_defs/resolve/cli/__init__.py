"""The commands `tidegate resolve` and `tidegate split-batch`."""
