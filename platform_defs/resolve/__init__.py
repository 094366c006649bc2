"""`tidegate resolve`: how a halted pipeline goes on; `tidegate split-batch`."""
