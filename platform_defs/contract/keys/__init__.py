"""The keys of a contract, with the values they accept: for reading, for errors and for docs/reference."""
