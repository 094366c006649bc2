"""The keys of a contract, each with what it takes: for reading, for errors and for docs/reference."""
