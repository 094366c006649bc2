"""`tidegate produce`: made-up messages of a contract, with a known number of bad ones."""
