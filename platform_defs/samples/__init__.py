"""`tidegate produce`: generated messages of a contract, with a known number of bad ones."""
